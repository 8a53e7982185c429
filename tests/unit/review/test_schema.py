"""The file of an index: its rights, its version, and damage."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from egress.review.schema import (
    StaleIndexError,
    is_damage,
    open_to_read,
    open_to_write,
    throw_away,
)


def test_it_is_made_with_the_rights_of_the_lines(tmp_path: Path) -> None:
    open_to_write(tmp_path / "index").close()
    assert stat.S_IMODE((tmp_path / "index").stat().st_mode) & 0o137 == 0
    open_to_read(tmp_path / "index").close()


def test_whoever_reads_cannot_write(tmp_path: Path) -> None:
    open_to_write(tmp_path / "index").close()
    connection = open_to_read(tmp_path / "index")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM file")
    connection.close()


def test_another_version_is_stale_to_read_and_made_anew_to_write(tmp_path: Path) -> None:
    connection = open_to_write(tmp_path / "index")
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(StaleIndexError):
        open_to_read(tmp_path / "index")
    connection = open_to_write(tmp_path / "index")
    assert connection.execute("SELECT count(*) FROM block").fetchone() == (0,)
    connection.close()
    open_to_read(tmp_path / "index").close()


def test_what_is_no_database_is_thrown_away(tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(b"x" * 9000)
    open_to_write(tmp_path / "index").close()
    open_to_read(tmp_path / "index").close()
    throw_away(tmp_path / "index")
    throw_away(tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_no_damage() -> None:
    error = sqlite3.OperationalError()
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert not is_damage(error)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    assert is_damage(error)
