"""Reading a file line by line, whatever is in it."""

from __future__ import annotations

import io
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit.chain import MAX_LINE_BYTES
from egress.review import line_reader
from egress.review.line_reader import pieces


def told(data: bytes, start: int = 0) -> list[bytes | int]:
    found: list[bytes | int] = []
    for piece in pieces(io.BytesIO(data), start):
        found += [piece.skipped] if piece.skipped else piece.lines
    return found


@given(
    st.lists(st.binary(max_size=9).map(lambda text: text.replace(b"\n", b"")), max_size=9),
    st.binary(max_size=5),
)
def test_every_line_comes_once_and_the_unfinished_one_not_at_all(lines: list[bytes], rest: bytes) -> None:
    data = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b"")
    assert told(data) == lines
    assert sum(piece.size for piece in pieces(io.BytesIO(data))) == sum(len(line) + 1 for line in lines)


def test_a_line_that_is_too_long_is_told_by_its_length() -> None:
    long = b"x" * (MAX_LINE_BYTES + 1)
    assert told(b"a\n" + long + b"\nb\n") == [b"a", MAX_LINE_BYTES + 2, b"b"]
    endless = b"x" * (3 * line_reader.CHUNK_BYTES)
    assert told(b"a\n" + endless + b"\nb\n") == [b"a", len(endless) + 1, b"b"]
    assert told(b"a\n" + endless) == [b"a"]


def test_it_begins_where_it_is_told() -> None:
    assert told(b"a\nbb\nc\n", 2) == [b"bb", b"c"]


def test_a_line_of_a_gigabyte_takes_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "long"
    with file.open("wb") as writing:
        writing.write(b"first\n")
        writing.truncate(1 << 30)
        writing.seek(1 << 30)
        writing.write(b"\nlast\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with file.open("rb") as data:
        found = list(pieces(data))
    assert [piece.lines for piece in found] == [[b"first"], [], [b"last"]]
    assert found[1].skipped == (1 << 30) - 6 + 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n", b"\n\n"])
def test_empty_lines_are_lines(data: bytes) -> None:
    assert told(data) == data.split(b"\n")[:-1]
