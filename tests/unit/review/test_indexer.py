"""Catching up: exactly what is new, in any order of events, and nothing half done."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from unittest.mock import patch

import pytest

from egress.review.indexer import Indexer, NoRoomError
from egress.review.schema import open_to_write
from tests.unit.audit.sample import files
from tests.unit.review.sample import Writing, write


@pytest.fixture
def connection(tmp_path: Path) -> sqlite3.Connection:
    return open_to_write(tmp_path / "index")


def fill(connection: sqlite3.Connection, log: Path) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []
    Indexer(connection, log, 0).run(lambda done, total: told.append((done, total)))
    return told


def count(connection: sqlite3.Connection, what: str) -> int:
    (found,) = connection.execute(f"SELECT {what}").fetchone()
    return int(found)


def test_it_tells_how_far_it_is(connection: sqlite3.Connection, tmp_path: Path) -> None:
    write(tmp_path / "log", rotate_at=900)
    told = fill(connection, tmp_path / "log")
    assert told[-1][0] == told[-1][1] == sum(file.stat().st_size for file in files(tmp_path / "log"))
    assert len(told) == len(files(tmp_path / "log"))
    assert fill(connection, tmp_path / "log") == [], "nothing is new"
    connection.close()


def test_one_pass_in_many_transactions_is_one_in_one(connection: sqlite3.Connection, tmp_path: Path) -> None:
    write(tmp_path / "log")
    with patch("egress.review.blocks.MOST_LINES", 2), patch("egress.review.indexer.BLOCKS", 1):
        fill(connection, tmp_path / "log")
    assert count(connection, "sum(lines) FROM block") == 8
    assert count(connection, "sum(requests) FROM hour") == count(connection, "sum(requests) FROM day") == 7
    assert count(connection, "sum(requests) FROM clock") == 7
    connection.close()


def test_a_pass_that_was_interrupted_goes_on_where_it_was(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    write(tmp_path / "log")
    tries = iter([None, None, OSError("gone")])

    def begin(filling: Indexer) -> None:
        if error := next(tries):
            raise error
        filling._connection.execute("BEGIN IMMEDIATE")

    with patch("egress.review.blocks.MOST_LINES", 2), patch("egress.review.indexer.BLOCKS", 1):
        with patch.object(Indexer, "_begin", begin), pytest.raises(OSError, match="gone"):
            fill(connection, tmp_path / "log")
        assert count(connection, "sum(lines) FROM block") == 4
        fill(connection, tmp_path / "log")
    assert count(connection, "sum(lines) FROM block") == 8
    assert count(connection, "sum(requests) FROM day") == 7
    connection.close()


def test_a_full_disk_is_left_alone(connection: sqlite3.Connection, tmp_path: Path) -> None:
    write(tmp_path / "log")
    with pytest.raises(NoRoomError):
        Indexer(connection, tmp_path / "log", 1 << 62).run()
    assert count(connection, "count(*) FROM block") == 0
    connection.close()


def test_what_is_no_line_is_counted_where_it_stands(connection: sqlite3.Connection, tmp_path: Path) -> None:
    log = tmp_path / "log"
    write(log)
    with files(log)[0].open("ab") as file:
        file.write(b"junk\n" + b'{"seq":1,"ti\n' + b'{"seq"#\n' + b"x" * 300_000 + b"\nhalf")
    fill(connection, log)
    kinds = "SELECT kind FROM odd ORDER BY at"
    assert [kind for (kind,) in connection.execute(kinds)] == ["foreign", "corrupt", "half", "huge"]
    (log / "audit-000002.jsonl").write_bytes(b"")
    fill(connection, log)
    assert [kind for (kind,) in connection.execute(kinds)][-1] == "half", "nobody will end it now"
    fill(connection, log)
    assert count(connection, "count(*) FROM odd") == 5
    assert count(connection, "sum(lines) FROM block") == 8
    connection.close()


def test_a_line_that_is_being_written_is_waited_for(connection: sqlite3.Connection, tmp_path: Path) -> None:
    log = tmp_path / "log"
    write(log)
    file = files(log)[0]
    data = file.read_bytes()
    for end in (len(data) - 200, len(data) - 1, len(data)):
        with file.open("r+b") as writing:
            writing.truncate(0)
            writing.write(data[:end])
        fill(connection, log)
    assert count(connection, "sum(lines) FROM block") == 8
    assert count(connection, "count(*) FROM odd") == 0
    connection.close()


def test_taking_out_a_file_takes_its_share_of_every_total(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    write(log, rotate_at=900)
    fill(connection, log)
    for file in files(log)[:-1]:
        file.unlink()
    fill(connection, log)
    left = count(connection, "coalesce(sum(requests), 0) FROM hour")
    assert count(connection, "coalesce(sum(requests), 0) FROM day") == left
    assert count(connection, "coalesce(sum(requests), 0) FROM clock") == left
    assert count(connection, "count(*) FROM file") == 1
    writing = Writing(log, 900)
    writing.exchange("r-9")
    writing.close()
    fill(connection, log)
    assert count(connection, "sum(lines) FROM block") > 0
    connection.close()
