"""Archives of what the host has: what was named, and nothing that a link leads to in the last moment."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.runtime import disk_space
from egress.runtime.errors import ArchiveError, SandboxStateError
from egress.runtime.spec import MIB
from egress.runtime.tar_filter import ArchiveLimits
from egress.sandbox import packing

OUTSIDE = "not to be seen"


def contents(source: Path, name: str = "") -> dict[str, str]:
    """What is packed: names, and what is behind them."""
    with packing.pack(source, name) as file, tarfile.open(fileobj=file) as tar:
        found = {}
        for member in tar:
            data = tar.extractfile(member) if member.isreg() else None
            found[member.name] = data.read().decode() if data else f"-> {member.linkname}"
        return found


def test_a_folder_is_packed_without_owners_and_odd_things(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/file").write_text("x")
    (tmp_path / "deep/file").chmod(0o750)
    (tmp_path / "hard").hardlink_to(tmp_path / "deep/file")
    (tmp_path / "link").symlink_to("deep/file")
    os.mkfifo(tmp_path / "pipe")
    with packing.pack(tmp_path) as file, tarfile.open(fileobj=file) as tar:
        assert tar.getnames() == ["deep", "deep/file", "hard", "link"]
        assert {(member.uid, member.uname) for member in tar} == {(0, "")}
        assert tar.getmember("deep").isdir()
        assert tar.getmember("deep/file").mode == 0o750
        assert [(tar.getmember(name).linkname) for name in ("hard", "link")] == ["deep/file", "deep/file"]


def test_a_file_is_packed_under_the_name_it_is_to_have(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_text("x")
    assert contents(tmp_path / "link", "other") == {"other": "x"}


@pytest.mark.parametrize(
    ("source", "name", "why"),
    [
        ("nowhere", "", "no such"),
        ("nowhere", "n", "no such"),
        ("file", "", "directory"),
        ("", "n", "directory"),
    ],
)
def test_what_cannot_be_packed_is_named(tmp_path: Path, source: str, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnreadableError, match=why), packing.pack(tmp_path / source, name):
        pass


def test_a_pipe_is_no_file_and_nobody_waits_at_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableError, match="it is not a file"), packing.pack(tmp_path / "pipe", "n"):
        pass


def test_folders_lie_in_one_another_for_so_long_and_no_longer(tmp_path: Path) -> None:
    top = at = tmp_path / "top"
    at.mkdir()
    for _ in range(packing._MAX_DEPTH - 1):
        at /= "x"
        at.mkdir()
    assert len(contents(top)) == packing._MAX_DEPTH - 1
    (at / "x").mkdir()
    with pytest.raises(UnreadableError, match="nested more than 200 deep"), packing.pack(top):
        pass


Swap = Callable[[Path], None]


def by_file(top: Path) -> None:
    (top / "in/file").unlink()
    (top / "in/file").symlink_to("../../outside/file")


def by_folder(top: Path) -> None:
    (top / "in").rename(top / "before")
    (top / "in").symlink_to("../outside")


@pytest.mark.parametrize("swap", [by_file, by_folder])
@pytest.mark.parametrize("at", [1, 2])
def test_a_link_that_comes_after_the_look_is_not_followed(
    swap: Swap, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox that can write the folder as well waits for the moment between looking and opening."""
    for name, text in (("outside", OUTSIDE), ("top/in", "mine")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text(text)
    top = tmp_path / "top"
    looks = []
    look = os.stat

    def look_and_lose(path: str, **options: object) -> os.stat_result:
        looks.append(path)
        found: os.stat_result = look(path, **options)  # type: ignore[arg-type]
        if len(looks) == at:
            swap(top)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", look_and_lose)
        try:
            found = contents(top)
        except UnreadableError:
            found = {}
    assert len(looks) >= at
    assert OUTSIDE not in found.values()


@pytest.mark.parametrize("swap", [by_file, by_folder])
def test_who_opens_by_path_would_have_followed_it(swap: Swap, tmp_path: Path) -> None:
    """The link leads where it should not."""
    for name, text in (("outside", OUTSIDE), ("top/in", "mine")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text(text)
    swap(tmp_path / "top")
    assert (tmp_path / "top/in/file").read_text() == OUTSIDE


def test_more_than_an_archive_may_hold_is_not_packed(tmp_path: Path) -> None:
    """H-3: a file with holes takes nothing in the folder of a sandbox, and all of its size here."""
    (tmp_path / "a").write_text("x")
    os.truncate(tmp_path / "a", 600)
    with packing.pack(tmp_path, limits=ArchiveLimits(1, 600)):
        pass
    for bounds in (ArchiveLimits(1, 599), ArchiveLimits(0, 600)):
        with pytest.raises(ArchiveError, match="to copy"), packing.pack(tmp_path, limits=bounds):
            pass


def test_packing_leaves_room_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H-3."""
    (tmp_path / "big").touch()
    os.truncate(tmp_path / "big", 3 * MIB)
    monkeypatch.setattr(disk_space, "_MIN_FREE_BYTES", 1 << 80)
    monkeypatch.setattr(disk_space, "_MIN_FREE_DIVISOR", 1)
    with pytest.raises(SandboxStateError, match="more disk space"), packing.pack(tmp_path):
        pass
