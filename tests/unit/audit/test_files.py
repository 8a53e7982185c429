"""The files of a log: names, order, the lock, the anchor."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.audit import files
from egress.audit.files import Anchor
from egress.errors import UnreadableError


def test_files_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (2, 10, 1, 1_000_000):
        (tmp_path / files.name(number)).touch()
    for other in ("audit-1.jsonl", "audit-000003.json", "audit-0000004.jsonl", "head"):
        (tmp_path / other).touch()
    assert files.numbers(tmp_path) == [1, 2, 10, 1_000_000]


def test_a_file_that_is_not_there_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / files.name(1)).write_bytes(b"abc")
    assert (files.size(tmp_path, 1), files.size(tmp_path, 2)) == (3, 0)


def test_a_second_writer_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    held = files.lock(tmp_path)
    with pytest.raises(UnreadableError, match="another process writes"):
        files.lock(tmp_path)
    os.close(held)
    os.close(files.lock(tmp_path))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Whoever may make a link in the folder must not choose what the proxy appends to."""
    (tmp_path / files.name(1)).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        files.open_to_append(tmp_path, 1)


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_what_is_put_whole_cannot_be_written_by_others(tmp_path: Path) -> None:
    left = tmp_path / "head.new"
    left.write_bytes(b"what a crash left, with other rights")
    files.put_whole(tmp_path / "head", b"abc")
    assert (tmp_path / "head").read_bytes() == b"abc"
    assert stat.S_IMODE((tmp_path / "head").stat().st_mode) == 0o640
    assert not left.exists()


@pytest.mark.usefixtures("no_umask")
def test_what_is_put_whole_does_not_follow_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"untouched")
    (tmp_path / "head.new").symlink_to(elsewhere)
    files.put_whole(tmp_path / "head", b"abc")
    assert elsewhere.read_bytes() == b"untouched"


def test_the_anchor_is_read_as_it_was_written(tmp_path: Path) -> None:
    anchor = Anchor(17, bytes(range(32)))
    files.write_anchor(tmp_path, b"k", anchor)
    assert files.read_anchor(tmp_path, b"k") == anchor


def test_there_may_be_no_anchor(tmp_path: Path) -> None:
    assert files.read_anchor(tmp_path, b"k") is None


@pytest.mark.parametrize("at", [0, 9, 20, 50, -1])
def test_a_changed_anchor_is_refused(at: int, tmp_path: Path) -> None:
    files.write_anchor(tmp_path, b"k", Anchor(17, bytes(32)))
    data = bytearray((tmp_path / files.ANCHOR).read_bytes())
    data[at] ^= 1
    (tmp_path / files.ANCHOR).write_bytes(data)
    with pytest.raises(ValueError, match="this key"):
        files.read_anchor(tmp_path, b"k")
    (tmp_path / files.ANCHOR).write_bytes(b"")
    with pytest.raises(ValueError, match="this key"):
        files.read_anchor(tmp_path, b"k")


def test_only_one_may_delete_old_files(tmp_path: Path) -> None:
    (tmp_path / files.name(3)).touch()
    (tmp_path / files.name(4)).touch()
    first = files.lock_oldest(tmp_path)
    assert first is not None
    assert files.lock_oldest(tmp_path) is None
    (tmp_path / files.name(3)).unlink()
    os.close(first)
    second = files.lock_oldest(tmp_path)
    assert second is not None
    os.close(second)
