"""pkt-lines: a length of four hex digits, and nothing that two servers read differently."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.inspect.git.pkt_line import FLUSH, FLUSH_PKT, MAX_PKT_BYTES, PktLineReader, pkt_line, pkt_lines


def read(data: bytes) -> list[bytes]:
    reader = PktLineReader()
    reader.feed(data)
    found = []
    while (line := reader.next_line()) is not None:
        found.append(line)
    return found


def test_reads_lines_and_flushes() -> None:
    assert read(b"0005a0009a\nbc\r0000") == [b"a", b"a\nbc\r", FLUSH]


def test_a_length_may_be_written_in_capitals() -> None:
    assert read(b"000A123456") == [b"123456"]


def test_waits_for_the_rest_of_a_line() -> None:
    reader = PktLineReader()
    for piece in (b"0", b"00", b"6", b"a"):
        reader.feed(piece)
        assert reader.next_line() is None
    reader.feed(b"b")
    assert reader.next_line() == b"ab"


@pytest.mark.parametrize(
    "data", [b"0001", b"0002", b"0003", b"0004", b"fff1" + b"a" * 70_000, b"00x5", b"x", b"+005a", b" 005a"]
)
def test_refuses_a_length_that_no_line_has(data: bytes) -> None:
    with pytest.raises(WireError, match="pkt-line"):
        read(data)


def test_the_longest_line_is_read() -> None:
    line = b"a" * (MAX_PKT_BYTES - 4)
    assert read(pkt_line(line)) == [line]


@pytest.mark.parametrize("size", [0, MAX_PKT_BYTES - 3])
def test_writes_no_line_that_it_would_not_read(size: int) -> None:
    with pytest.raises(ValueError, match="65516"):
        pkt_line(b"a" * size)


def test_hands_over_what_follows_the_lines() -> None:
    reader = PktLineReader()
    reader.feed(FLUSH_PKT + b"PACK and more")
    assert reader.next_line() == FLUSH
    assert reader.peek(4) == b"PACK"
    assert reader.take_rest() == b"PACK and more"
    assert reader.peek(1) == b""


def test_cuts_bytes_into_lines_that_each_name_their_band() -> None:
    assert b"".join(pkt_lines(b"\1", b"abcde", 7)) == b"0007\x01ab0007\x01cd0006\x01e"
