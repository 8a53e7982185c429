"""Folders are private, short enough for sockets, and swept when their owner has gone."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from egress.fleet.errors import FleetUnavailableError
from egress.fleet.folders import own_folder, private_folder, remove_stale, sandbox_home


def test_a_folder_is_of_its_user_alone(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert stat.S_IMODE(own_folder(tmp_path / "open").stat().st_mode) == 0o700
    assert stat.S_IMODE(own_folder(tmp_path / "new").stat().st_mode) == 0o700
    assert sandbox_home(tmp_path / "run", "docker") == tmp_path / "run/sandboxes/docker"


def test_what_is_no_folder_of_ones_own_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(FleetUnavailableError) as caught:
            own_folder(tmp_path / name)
        assert "runtime folder" in caught.value.hint


def test_a_private_folder_is_gone_afterwards() -> None:
    short = Path("/tmp") / f"egress-test-{os.getpid()}"
    try:
        with private_folder(short) as folder:
            assert folder.parent == short / "embedded"
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            with private_folder(short) as other:
                assert other != folder
            assert folder.is_dir()
            assert not other.exists()
        assert not folder.exists()
    finally:
        (short / "embedded").rmdir()
        short.rmdir()


def test_a_path_that_is_too_long_for_sockets_is_not_taken(tmp_path: Path) -> None:
    with private_folder(tmp_path / ("x" * 100)) as folder:
        assert len(str(folder / "doors/handover.sock")) < 100
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()


def test_only_what_nobody_holds_is_swept_away(tmp_path: Path) -> None:
    for name in ("held", "left"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "owner.lock").write_text("", encoding="utf-8")
    (tmp_path / "foreign").mkdir()
    with (tmp_path / "held/owner.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_stale(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["foreign", "held"]
