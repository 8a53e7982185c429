"""The folder of a socket is its user's own, and one process's at a time."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.unix.socket_folder import lock_file, make_own_folder


def test_a_folder_is_made_and_closed_to_others(tmp_path: Path) -> None:
    assert make_own_folder(tmp_path / "a" / "b", "name another") == tmp_path / "a" / "b"
    (tmp_path / "a").chmod(0o777)
    make_own_folder(tmp_path / "a", "name another")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_a_link_and_the_folder_of_another_user_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(UnreadableError, match="is not a folder of your own") as caught:
        make_own_folder(tmp_path / "link", "name another")
    assert caught.value.hint == "name another"
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UnreadableError, match="is not a folder of your own"):
        make_own_folder(tmp_path / "real", "name another")
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o755


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    held = lock_file(tmp_path / "lock")
    assert held is not None
    assert lock_file(tmp_path / "lock") is None
    os.close(held)
    again = lock_file(tmp_path / "lock")
    assert again is not None
    os.close(again)
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600


def test_a_link_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        lock_file(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()
