"""What is an image here."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.runtime.errors import ImageMissingError, MountError
from egress.runtime.namespace import image_folder


def test_the_machine_itself_is_one() -> None:
    assert image_folder.image_root("host") is None


def test_a_root_folder_is_one_by_where_it_ends(tmp_path: Path) -> None:
    for name in ("bin", "usr"):
        (tmp_path / "root" / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("root")
    assert image_folder.image_root(str(tmp_path / "link")) == tmp_path / "root"


@pytest.mark.parametrize("name", ["debian:12", "relative/root", "no-such-image:ever"])
def test_what_an_engine_would_know_is_not(name: str) -> None:
    with pytest.raises(ImageMissingError) as caught:
        image_folder.image_root(name)
    assert "host" in caught.value.hint


def test_a_folder_that_is_no_system_is_not(tmp_path: Path) -> None:
    with pytest.raises(ImageMissingError, match="not the root folder"):
        image_folder.image_root(str(tmp_path))


def test_what_no_sandbox_gets_is_not(tmp_path: Path) -> None:
    for name in ("bin", "usr", "secret"):
        (tmp_path / name).mkdir()
    with pytest.raises(MountError):
        image_folder.image_root(str(tmp_path), (tmp_path / "secret",))
    with pytest.raises(MountError):
        image_folder.image_root("/")
