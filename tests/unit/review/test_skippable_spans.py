"""What an index knows to be of another time: passed over, and nothing that is wanted with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from egress.review import Index, blocks
from egress.review.drafting import TimeRange, Traffic, read
from egress.review.skippable_spans import Part, SkippableSpans
from tests.unit.audit.sample import files
from tests.unit.review.sample import START, Writing, write

HOUR = 3600
SECOND = 1_000_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two files, and an index with a block for each line."""
    write(tmp_path, rotate_at=3000)
    index(tmp_path)
    return tmp_path


def index(log: Path) -> None:
    with patch.object(blocks, "MOST_LINES", 1), Index(log, reserve=0) as made:
        made.catch_up()


def wanted(log: Path, since: int, number: int = 1) -> list[Part]:
    found = SkippableSpans.of(log / "index.sqlite3", since, None, log)
    with files(log)[number - 1].open("rb") as file:
        return list(found.spans_to_read(file, number))


def size(log: Path) -> int:
    return files(log)[0].stat().st_size


def test_only_what_can_have_a_line_of_that_time_is_wanted(log: Path) -> None:
    at = files(log)[0].read_bytes().index(b'"seq":3') - 1
    assert wanted(log, START + 2 * HOUR * SECOND) == [(at, size(log))]
    assert wanted(log, START) == [(0, size(log))]
    assert wanted(log, 2**60) == [(size(log), size(log))]


def test_reading_by_an_index_finds_what_reading_everything_finds(log: Path) -> None:
    start, found = START // SECOND, Traffic()
    for hours in range(-1, 10):
        for until in (None, start + (hours + 2) * HOUR):
            here, there = TimeRange(start + hours * HOUR, until), TimeRange(start + hours * HOUR, until)
            found = Traffic.of(read(log, here))
            assert list(found) == list(Traffic.of(read(log, there, log / "none")))
            assert (here.odd, there.odd) == (0, 0)
    assert found.lines == 0


def test_what_came_after_the_index_is_wanted(log: Path) -> None:
    for file in files(log)[1:]:
        file.unlink()
    index(log)
    before = size(log)
    with files(log)[0].open("ab") as end:
        end.write(b"new\n")
    assert wanted(log, 2**60) == [(before, before + 4)]


def test_a_clock_that_went_back_hides_nothing(tmp_path: Path) -> None:
    writing = Writing(tmp_path)
    for hours in (0, 5, -9, 1):
        writing.clock.ns += hours * HOUR * 10**9
        writing.exchange(f"r-{hours}")
    writing.close()
    index(tmp_path)
    since = TimeRange(START // SECOND + 4 * HOUR)
    assert Traffic.of(read(tmp_path, since)).lines == 1


def changed(log: Path) -> None:
    data = bytearray(files(log)[0].read_bytes())
    data[40] ^= 1
    files(log)[0].write_bytes(data)
    os.utime(files(log)[0], ns=(1, 1))


def cut_short(log: Path) -> None:
    os.truncate(files(log)[0], size(log) // 2)


def damaged(log: Path) -> None:
    (log / "index.sqlite3").write_bytes(b"x" * 4096)


def missing(log: Path) -> None:
    (log / "index.sqlite3").unlink()


@pytest.mark.parametrize("spoil", [changed, cut_short, damaged, missing])
def test_an_index_that_is_not_of_this_file_passes_over_nothing(
    log: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(log)
    assert wanted(log, 2**60) == [(0, size(log))]


def test_a_file_that_was_put_in_the_place_of_another_is_read(log: Path) -> None:
    data = files(log)[0].read_bytes()
    kept = log / "kept"
    files(log)[0].rename(kept)
    (log / "audit-000001.jsonl").write_bytes(data)
    assert wanted(log, 2**60) == [(0, size(log))]


def test_odd_lines_are_told_although_they_have_no_time(tmp_path: Path) -> None:
    write(tmp_path)
    with files(tmp_path)[0].open("ab") as file:
        file.write(b"nonsense\n")
    index(tmp_path)
    since = TimeRange(START // SECOND + 100 * HOUR)
    assert list(read(tmp_path, since)) == []
    assert since.odd == 1
