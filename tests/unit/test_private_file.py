"""A private file is read only when it is its owner's alone, and is written whole or not at all."""

from __future__ import annotations

import os
import stat
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.private_file import (
    read_mounted,
    read_or_create_private,
    read_private,
    refuse_others,
    write_atomically,
)

CURE = "name another"


def put(path: Path, mode: int = 0o600) -> Path:
    path.write_bytes(b"not to be quoted")
    path.chmod(mode)
    return path


def refused(path: Path, *, is_named: bool = False) -> UnreadableError:
    with pytest.raises(UnreadableError) as caught:
        read_private(path, 100, CURE, is_named=is_named)
    assert str(path) in caught.value.message
    assert "quoted" not in str(caught.value) + caught.value.hint
    assert caught.value.hint.endswith(CURE)
    return caught.value


def test_a_private_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = put(tmp_path / "file")
    assert read_private(path, 100, CURE) == b"not to be quoted"
    assert read_private(path, 3, CURE) == b"not"


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o666])
@pytest.mark.parametrize("is_named", [False, True])
def test_a_file_that_is_open_to_others_is_refused(mode: int, is_named: bool, tmp_path: Path) -> None:
    error = refused(put(tmp_path / "file", mode), is_named=is_named)
    assert f"open to other users (mode {mode:04o})" in error.message
    assert f"`chmod 600 {tmp_path / 'file'}`" in error.hint


def test_the_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "file")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    for is_named in (False, True):
        assert "belongs to another user" in refused(path, is_named=is_named).message


def test_root_reads_a_named_file_of_the_user_it_administers_and_no_other(tmp_path: Path) -> None:
    status = os.stat_result((0o100600, 0, 0, 1, os.getuid() + 1, 0, 0, 0, 0, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 0)
        refuse_others(tmp_path, status, CURE, is_root_allowed=True)
        with pytest.raises(UnreadableError, match="belongs to another user"):
            refuse_others(tmp_path, status, CURE)
        is_open = os.stat_result((0o100640, 0, 0, 1, os.getuid() + 1, 0, 0, 0, 0, 0))
        with pytest.raises(UnreadableError, match="open to other users"):
            refuse_others(tmp_path, is_open, CURE, is_root_allowed=True)


def test_a_link_is_followed_only_where_the_path_was_named(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(put(tmp_path / "file"))
    assert "symbolic links" in refused(link).message
    assert read_private(link, 100, CURE, is_named=True) == b"not to be quoted"


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        assert "is not a regular file" in refused(path).message


def test_a_missing_file_is_told_apart_from_an_unusable_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_private(tmp_path / "none", 100, CURE)
    assert "not a directory" in refused(put(tmp_path / "file") / "below").message


def test_a_file_is_created_once_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    assert read_or_create_private(path, lambda: b"first", 100, CURE) == b"first"
    assert read_or_create_private(path, lambda: b"second", 100, CURE) == b"first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_nlink == 1


def test_those_that_create_it_at_once_agree(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with ThreadPool(8) as pool:
        found = pool.map(
            lambda number: read_or_create_private(path, lambda: b"%d" % number, 100, CURE), range(32)
        )
    assert len(set(found)) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_that_leads_nowhere_is_neither_followed_nor_replaced(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    for is_named in (False, True):
        with pytest.raises(UnreadableError, match="cannot be read"):
            read_or_create_private(link, lambda: b"new", 100, CURE, is_named=is_named)
    assert list(tmp_path.iterdir()) == [link]


def test_a_file_that_cannot_be_created_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="cannot be made"):
        read_or_create_private(Path("/proc/none/file"), lambda: b"", 100, CURE)


def test_a_write_replaces_only_when_it_is_told_to(tmp_path: Path) -> None:
    path = put(tmp_path / "file")
    assert not write_atomically(path, b"new", replace=False)
    assert path.read_bytes() == b"not to be quoted"
    assert write_atomically(path, b"new", 0o644, replace=True)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim = put(tmp_path / "victim")
    link = tmp_path / "link"
    link.symlink_to(victim)
    assert not write_atomically(link, b"new", replace=False)
    assert write_atomically(link, b"new", replace=True)
    assert not link.is_symlink()
    assert victim.read_bytes() == b"not to be quoted"


def test_a_failure_in_the_middle_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    path = put(tmp_path / "file")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new", replace=True)
    assert path.read_bytes() == b"not to be quoted"
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_folder_are_synchronised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(stat.S_ISDIR(os.fstat(fd).st_mode)))
    write_atomically(tmp_path / "file", b"new", replace=False)
    assert synced == [False, True]


def test_a_mounted_file_may_belong_to_root_and_to_a_group_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(tmp_path / "..data", 0o440)
    link = tmp_path / "key"
    link.symlink_to(file)
    assert read_mounted(link, 100, CURE) == b"not to be quoted"
    monkeypatch.setattr(os, "getgroups", list)
    monkeypatch.setattr(os, "getegid", lambda: file.stat().st_gid + 1)
    with pytest.raises(UnreadableError, match="open to other users"):
        read_mounted(link, 100, CURE)
    file.chmod(0o400)
    assert read_mounted(link, 100, CURE) == b"not to be quoted"


@pytest.mark.parametrize("mode", [0o444, 0o460, 0o442, 0o640 | 0o1])
def test_a_mounted_file_that_others_read_or_a_group_writes_is_refused(mode: int, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="open to other users"):
        read_mounted(put(tmp_path / "key", mode), 100, CURE)


def test_a_mounted_file_of_a_stranger_or_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(tmp_path / "key", 0o440)
    with pytest.raises(UnreadableError, match="is a directory"):
        read_mounted(tmp_path, 100, CURE)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_mounted(tmp_path / "pipe", 100, CURE)
    with pytest.raises(FileNotFoundError):
        read_mounted(tmp_path / "missing", 100, CURE)
    os.chown(file, os.getuid() or 12345, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(UnreadableError, match="belongs to another user"):
        read_mounted(file, 100, CURE)
