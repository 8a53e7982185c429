"""What a person names on the host, where a sandbox or a repository has laid a link in the way."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.sandbox import packing, unpacking
from egress.sandbox.host_paths import open_host_path

SECRET = "not to be seen"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that a sandbox writes, and links in it that lead to another one."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/key").write_text(SECRET)
    folder = tmp_path / "project"
    (folder / "real").mkdir(parents=True)
    (folder / "real/key").write_text("fine")
    (folder / "near").symlink_to("real")
    (folder / "up").symlink_to("../victim")
    (folder / "away").symlink_to(tmp_path / "victim")
    (folder / "twice").symlink_to("up")
    (folder / "key").symlink_to("../victim/key")
    for each in folder.iterdir():
        if each.is_symlink() and os.geteuid() == 0:
            os.lchown(each, 1000, 1000)
    return folder


def archive() -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo("key")
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"x"))
    out.seek(0)
    return out


def pack(path: Path, name: str = "") -> None:
    with packing.pack(path, name):
        pass


def take(path: Path) -> None:
    with unpacking.open_archive(path) as file:
        file.read()


USES: dict[str, Callable[[Path], None]] = {
    "a folder in": pack,
    "a file in": lambda path: pack(path / "key", "key"),
    "an archive in": lambda path: take(path / "key"),
    "a folder out": lambda path: unpacking.unpack_folder(archive(), path),
    "a new folder out": lambda path: unpacking.unpack_folder(archive(), path / "new/deep"),
    "a file out": lambda path: unpacking.unpack_file(archive(), path / "key"),
    "an archive out": lambda path: unpacking.write_file(io.BytesIO(b"x"), path / "saved"),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("link", ["up", "away", "twice"])
def test_a_link_that_others_made_does_not_lead_out_of_its_folder(project: Path, use: str, link: str) -> None:
    """H-2: a key of the host was copied in, and files beside it were written."""
    with pytest.raises(UnreadableError, match="leads out of its folder") as refused:
        USES[use](project / link)
    victim = project.parent / "victim"
    assert str(victim) in refused.value.hint
    assert [(each.name, each.read_text()) for each in victim.iterdir()] == [("key", SECRET)]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("way", ["real", "near", "near/../real", "./real"])
def test_what_stays_in_its_folder_is_used(project: Path, use: str, way: str) -> None:
    """The good twin."""
    USES[use](project / way)


def test_a_file_that_is_such_a_link_is_neither_read_nor_written_through(project: Path) -> None:
    with pytest.raises(UnreadableError, match="leads out of its folder"):
        pack(project / "key", "key")
    with pytest.raises(UnreadableError, match="leads out of its folder"):
        take(project / "key")
    unpacking.write_file(io.BytesIO(b"x"), project / "key")
    assert not (project / "key").is_symlink()
    assert (project.parent / "victim/key").read_text() == SECRET


def test_what_was_judged_is_what_is_opened(project: Path) -> None:
    """A sandbox waits for the moment between the two, and lays a link where the folder was."""
    for use in ("file", "folder"):
        with open_host_path(project / "real" / ("key" if use == "file" else "")) as way:
            (project / "real").rename(project / "moved")
            (project / "real").symlink_to("../victim")
            number = way.open_file(os.O_RDONLY) if use == "file" else way.open_folder()
            if use == "file":
                assert os.read(number, 100) == b"fine"
            assert (
                os.fstat(number).st_ino
                == (project / "moved" / ("key" if use == "file" else "")).stat().st_ino
            )
            os.close(number)
        (project / "real").unlink()
        (project / "moved").rename(project / "real")
    with open_host_path(project / "new") as way:
        (project / "new").symlink_to("../victim")
        with pytest.raises(OSError, match="irectory"):
            way.open_folder(make=True)


def test_links_in_a_circle_are_told(project: Path) -> None:
    (project / "one").symlink_to("two")
    (project / "two").symlink_to("one")
    with pytest.raises(UnreadableError, match="oo many levels"):
        pack(project / "one")
    with pytest.raises(UnreadableError, match="oo many levels"):
        unpacking.unpack_folder(archive(), project / "one")


def test_nothing_stays_open(project: Path) -> None:
    def opened() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    before = opened()
    for _ in range(20):
        for path in (project / "near", project / "up", project / "none/none", project / "near/key"):
            with contextlib.suppress(UnreadableError, OSError), open_host_path(path) as way:
                os.close(way.open_folder())
    assert opened() - before < 20
