"""Leases: held as long as their owner lives, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from egress.runtime import owner_lock
from egress.runtime.errors import EngineUnavailableError
from egress.runtime.owner_lock import OwnerLock, is_held, kept_lease, owner_of, try_kept_lock, write_owner
from egress.unix.socket_folder import lock_file

_HOLD = """
import sys, pathlib
from egress.runtime.owner_lock import OwnerLock
print(OwnerLock(pathlib.Path(sys.argv[1])).path, flush=True)
sys.stdin.read()
"""


def test_it_is_held_until_it_ends(tmp_path: Path) -> None:
    with OwnerLock(tmp_path) as lease:
        assert is_held(lease.path)
    assert not lease.path.exists()
    assert not is_held(lease.path)
    lease.release()


def test_a_process_that_is_killed_holds_it_no_more(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        assert is_held(path)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert path.exists()
    assert not is_held(path)


def test_where_it_cannot_be_found_out_it_is_held(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    assert is_held(tmp_path / "folder")
    assert is_held(tmp_path / "link")


def test_a_folder_says_whose_it_is(tmp_path: Path) -> None:
    assert owner_of(tmp_path) == ""
    write_owner(tmp_path, "/run/l.lease")
    assert owner_of(tmp_path) == "/run/l.lease"


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailableError, match="nowhere"):
        OwnerLock(tmp_path / "nowhere")


# The kept lease -------------------------------------------------------------------------------------


def test_the_kept_lease_goes_from_owner_to_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_lock, "_KEPT_TIMEOUT", 0.1)
    first = OwnerLock(tmp_path, keeps=True)
    assert first.path == kept_lease(tmp_path)
    with pytest.raises(EngineUnavailableError, match="another process keeps sandboxes"):
        OwnerLock(tmp_path, keeps=True)
    assert try_kept_lock(tmp_path) is None
    first.leave()
    first.release()
    assert first.path.exists()
    with OwnerLock(tmp_path, keeps=True) as second:
        assert is_held(second.path)
    assert not kept_lease(tmp_path).exists()


def test_a_lock_on_a_file_that_was_removed_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the opening and the locking, its last owner has removed the file."""
    opened = list[int]()

    def lock(path: Path) -> int | None:
        found = lock_file(path)
        if not opened:
            path.unlink()
        opened.append(found or 0)
        return found

    monkeypatch.setattr(owner_lock, "lock_file", lock)
    with OwnerLock(tmp_path, keeps=True) as lease:
        assert len(opened) == 2
        assert is_held(lease.path)


def test_who_looks_for_leftovers_is_waited_for(tmp_path: Path) -> None:
    other = try_kept_lock(tmp_path)
    assert other is not None
    timer = threading.Timer(0.05, os.close, [other])
    timer.start()
    OwnerLock(tmp_path, keeps=True).release()
    timer.join()
