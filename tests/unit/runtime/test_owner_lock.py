"""Leases: held as long as their owner lives, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from egress.runtime.errors import EngineUnavailableError
from egress.runtime.owner_lock import OwnerLock, is_held, owner_of, write_owner

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
