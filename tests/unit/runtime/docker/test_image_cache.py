"""An image is found again as long as its files look the same; what they hold is read when they do not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from egress.runtime.docker.engine import DockerEngine, OwnImage
from egress.runtime.docker.image_cache import find, find_or_make, fingerprint
from egress.runtime.errors import ImageMissingError


class Names:
    """An engine as far as it knows names of images."""

    def __init__(self, *names: str) -> None:
        self.ids = dict.fromkeys(names, "id")

    def image_id(self, name: str) -> str:
        if name not in self.ids:
            raise ImageMissingError("no", "none")
        return self.ids[name]

    def images(self, label: str) -> list[OwnImage]:
        return []

    def tag_image(self, name: str, repository: str, tag: str) -> None:
        self.ids[f"{repository}:{tag}"] = self.image_id(name)


def test_it_is_made_once_and_found_again() -> None:
    names = Names()
    made: list[str] = []

    def make() -> str:
        made.append("made")
        names.ids["demo:digest"] = "new"
        return "demo:digest"

    assert find(cast("DockerEngine", names), "demo", "a" * 64) is None
    for _ in range(2):
        assert find_or_make(cast("DockerEngine", names), "demo", "a" * 64, make) == f"demo:stat-{'a' * 16}"
    assert made == ["made"]
    assert find(cast("DockerEngine", names), "demo", "a" * 64) == f"demo:stat-{'a' * 16}"
    assert names.ids[f"demo:stat-{'a' * 16}"] == "new"


def test_files_that_look_otherwise_are_read_again() -> None:
    names = Names("demo:digest", f"demo:stat-{'a' * 16}")
    assert (
        find_or_make(cast("DockerEngine", names), "demo", "b" * 64, lambda: "demo:digest")
        == f"demo:stat-{'b' * 16}"
    )


def test_place_size_and_time_of_a_file_count(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"one")
    os.utime(file, ns=(1, 1))
    before = fingerprint([file])
    assert fingerprint([file]) == before
    os.utime(file, ns=(1, 2))
    assert fingerprint([file]) != before
    file.write_bytes(b"two!")
    os.utime(file, ns=(1, 1))
    assert fingerprint([file]) != before
    file.write_bytes(b"two")
    os.utime(file, ns=(1, 1))
    assert fingerprint([file]) == before
    assert fingerprint([file.rename(tmp_path / "other")]) != before


def test_what_is_missing_counts_too(tmp_path: Path) -> None:
    before = fingerprint([tmp_path / "file"])
    (tmp_path / "file").touch()
    assert fingerprint([tmp_path / "file"]) != before


def test_settings_count() -> None:
    assert len({fingerprint([], settings) for settings in ((), ("a",), ("a", "b"), ("ab",))}) == 4
