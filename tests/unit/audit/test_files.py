"""The files of a log: names, order, the lock, the anchor."""

from __future__ import annotations

import hmac
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.audit import files
from egress.audit.files import Anchor, Pruning
from egress.errors import UnreadableError

PRUNING = Pruning("root", 1_772_357_400_000_123_000, 3, 4096, 17, is_forced=True)


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


@pytest.mark.parametrize("what", ["pipe", "folder", "link"])
def test_what_is_no_plain_file_is_none_of_the_log(what: str, tmp_path: Path) -> None:
    """Reading a pipe, or a link to a device, would never end."""
    (tmp_path / files.name(1)).touch()
    planted(tmp_path / files.name(2), what)
    assert files.numbers(tmp_path) == [1]


def planted(path: Path, what: str) -> None:
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("what", ["pipe", "folder", "link"])
def test_nobody_waits_at_what_stands_in_the_place_of_a_file(what: str, tmp_path: Path) -> None:
    planted(tmp_path / files.name(1), what)
    with pytest.raises(OSError, match=r"plain file|No such device|Is a directory|symbolic links"):
        os.close(files.open_to_append(tmp_path, 1))
    planted(tmp_path / files.ANCHOR, what)
    with pytest.raises(OSError, match=r"plain file|symbolic links"):
        files.read_anchor(tmp_path, bytes(32))


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_what_is_put_whole_cannot_be_written_by_others(tmp_path: Path) -> None:
    left = tmp_path / "head.new"
    left.write_bytes(b"what a crash left, with other rights")
    files.replace_file(tmp_path / "head", b"abc")
    assert (tmp_path / "head").read_bytes() == b"abc"
    assert stat.S_IMODE((tmp_path / "head").stat().st_mode) == 0o640
    assert not left.exists()


@pytest.mark.usefixtures("no_umask")
def test_what_is_put_whole_does_not_follow_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"untouched")
    (tmp_path / "head.new").symlink_to(elsewhere)
    files.replace_file(tmp_path / "head", b"abc")
    assert elsewhere.read_bytes() == b"untouched"


@pytest.mark.parametrize("is_told", [True, False])
def test_the_anchor_is_read_as_it_was_written(is_told: bool, tmp_path: Path) -> None:
    files.write_anchor(tmp_path, b"k", 17, bytes(range(32)), PRUNING, is_told=is_told)
    assert files.read_anchor(tmp_path, b"k") == Anchor(17, bytes(range(32)), PRUNING, is_told)


def test_an_anchor_of_before_it_said_who_deleted_is_read(tmp_path: Path) -> None:
    body = struct.pack("<8sQ32s", b"egranch1", 17, bytes(range(32)))
    (tmp_path / files.ANCHOR).write_bytes(body + hmac.digest(b"k", body, "sha256"))
    assert files.read_anchor(tmp_path, b"k") == Anchor(17, bytes(range(32)), None, is_told=True)
    with pytest.raises(ValueError, match="this key"):
        files.read_anchor(tmp_path, b"other")


def test_an_anchor_of_a_later_version_is_refused(tmp_path: Path) -> None:
    body = struct.pack("<8sQ32s", b"egranch3", 17, bytes(32))
    (tmp_path / files.ANCHOR).write_bytes(body + hmac.digest(b"k", body, "sha256"))
    with pytest.raises(ValueError, match="this key"):
        files.read_anchor(tmp_path, b"k")


def test_a_long_name_and_a_clock_that_is_far_off_do_no_harm(tmp_path: Path) -> None:
    files.write_anchor(tmp_path, b"k", 1, bytes(32), Pruning("Ö" * 90, -5, 1, 1, 1))
    found = files.read_anchor(tmp_path, b"k")
    assert found is not None
    assert found.pruning == Pruning("Ö" * 32, 0, 1, 1, 1)


def test_there_may_be_no_anchor(tmp_path: Path) -> None:
    assert files.read_anchor(tmp_path, b"k") is None


@pytest.mark.parametrize("at", [0, 9, 20, 50, 80, 100, -1])
def test_a_changed_anchor_is_refused(at: int, tmp_path: Path) -> None:
    files.write_anchor(tmp_path, b"k", 17, bytes(32), PRUNING)
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


def test_where_nothing_is_nothing_can_be_deleted(tmp_path: Path) -> None:
    assert files.lock_oldest(tmp_path) is None
