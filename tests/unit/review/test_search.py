"""Searching: places to go on from, bounded work, and texts between commas."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.review import Filters, Index
from egress.review.filters import FilterError
from egress.review.search import Cursor, EntryReader, IndexSearch, LinePlace
from tests.unit.audit.sample import files
from tests.unit.review.sample import write


@pytest.mark.parametrize("text", ["", "1", "1:", ":1", "a:1", "1:-1", "1:1:1", "9" * 64 + ":1", "١:1"])
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        LinePlace.of(text)


@pytest.mark.parametrize(
    "text", ["1:1", "1:1:", ":1:1", "1:a:1", "1:1:-1", "1:1:1:1", "9" * 64 + ":1:1", "1:١:1"]
)
def test_a_cursor_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        Cursor.of(text)


def test_a_place_is_read_as_it_was_shown() -> None:
    assert Cursor.of(str(Cursor(12, 3, 77))) == Cursor(12, 3, 77)
    assert LinePlace.of("3:77") == LinePlace(3, 77)


def test_work_is_bounded_and_a_place_says_where_to_go_on(tmp_path: Path) -> None:
    write(tmp_path, rotate_at=900)
    with Index(tmp_path, reserve=0) as index, EntryReader(tmp_path) as reader:
        index.catch_up()
        search = IndexSearch(index._open(), reader, Filters())
        found = list(search.entries(budget=0))
        assert isinstance(found[-1], Cursor)
        assert 0 < len(found) < 9
        rest = list(IndexSearch(index._open(), reader, Filters()).entries(found[-1]))
        assert len(rest) + len(found) - 1 == index.state().lines


def test_a_reader_survives_whatever_became_of_a_file(tmp_path: Path) -> None:
    write(tmp_path)
    with EntryReader(tmp_path) as reader:
        assert reader.entry(1, 0) is not None
        assert reader.entry(1, 1) is None
        assert reader.entry(1, 1 << 40) is None
        assert reader.entry(2, 0) is None
        assert reader.bytes(2, 0, 5) == b""
        files(tmp_path)[0].write_bytes(b"no line\n")
    with EntryReader(tmp_path) as reader:
        assert reader.entry(1, 0) is None
        assert reader.bytes(1, 3, 100) == b"line\n"
