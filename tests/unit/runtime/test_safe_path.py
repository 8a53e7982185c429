"""The way to a path: what was judged is what is used, whatever others do meanwhile."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from egress.runtime.safe_path import places_on_path, resolve_path


def read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def test_a_path_without_links_leads_to_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"here")
    with resolve_path(tmp_path / "file") as way:
        assert way.end == tmp_path / "file"
        assert not way.links
        assert way.untrusted_link() is None
        assert read(way.open_file(os.O_RDONLY)) == b"here"


def test_a_link_within_its_folder_is_followed_and_told(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_bytes(b"here")
    (tmp_path / "link").symlink_to("real")
    with resolve_path(tmp_path / "link/file") as way:
        assert way.end == tmp_path / "real/file"
        assert [(link.place, link.target) for link in way.links] == [(tmp_path / "link", Path("real"))]
        assert way.untrusted_link() is None
        assert read(way.open_file(os.O_RDONLY)) == b"here"


def test_the_places_of_a_way_are_its_links_and_its_end(tmp_path: Path) -> None:
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to(tmp_path)
    links = (tmp_path / "first", tmp_path / "second")
    assert places_on_path(tmp_path / "first/none") == (*links, tmp_path / "none")
    assert places_on_path(tmp_path / "none/../first") == (*links, tmp_path)


def test_a_path_that_does_not_begin_at_the_root_is_read_where_we_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert places_on_path(Path("some/file")) == (tmp_path / "some/file",)


def test_a_circle_of_links_has_places_and_no_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    assert set(places_on_path(tmp_path / "one/file")) == {tmp_path / "one", tmp_path / "two"}
    with pytest.raises(OSError, match="symbolic links"), resolve_path(tmp_path / "one/file"):
        pass  # never got here


@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_link_out_of_its_folder_is_strange_where_others_can_have_made_it(
    tmp_path: Path, *, is_absolute: bool
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "project").mkdir()
    link = tmp_path / "project/data"
    link.symlink_to(tmp_path / "private" if is_absolute else "../private")
    with resolve_path(link) as way:
        assert way.end == tmp_path / "private"
        found = way.untrusted_link([tmp_path / "project"])
        assert found is not None
        assert found.place == link
        # Of who runs this; root's is trusted, where no sandbox writes.
        assert (way.untrusted_link() is None) == (os.geteuid() == 0)


def test_what_is_put_in_the_place_of_a_folder_meanwhile_is_not_gone_into(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/file").write_bytes(b"private")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_bytes(b"named")
    with resolve_path(tmp_path / "folder/file") as way:
        (tmp_path / "folder").rename(tmp_path / "aside")
        (tmp_path / "folder").symlink_to("victim")
        assert read(way.open_file(os.O_RDONLY)) == b"named"


def test_a_link_that_is_laid_at_the_end_meanwhile_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"private")
    (tmp_path / "file").touch()
    with resolve_path(tmp_path / "file") as way:
        (tmp_path / "file").unlink()
        (tmp_path / "file").symlink_to("victim")
        with pytest.raises(OSError, match="symbolic") as refused:
            way.open_file(os.O_RDONLY)
        assert refused.value.errno == errno.ELOOP


def test_folders_are_made_where_that_is_asked_for(tmp_path: Path) -> None:
    with resolve_path(tmp_path / "new/deep") as way:
        with pytest.raises(FileNotFoundError):
            way.open_folder()
        os.close(way.open_folder(make=True))
    assert (tmp_path / "new/deep").is_dir()


def test_what_is_not_there_is_said_and_nothing_is_made(tmp_path: Path) -> None:
    with resolve_path(tmp_path / "none/file") as way, pytest.raises(FileNotFoundError):
        way.open_file(os.O_WRONLY | os.O_CREAT)
    assert not list(tmp_path.iterdir())


def test_dots_go_back_to_where_a_link_has_led(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/b")
    with resolve_path(tmp_path / "link" / ".." / "file") as way:
        assert way.end == tmp_path / "a/file"


def test_links_that_lead_to_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links") as refused, resolve_path(tmp_path / "one"):
        pass
    assert refused.value.errno == errno.ELOOP


def test_nothing_stays_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with resolve_path(tmp_path):
        assert len(list(Path("/proc/self/fd").iterdir())) > before
    assert len(list(Path("/proc/self/fd").iterdir())) == before
