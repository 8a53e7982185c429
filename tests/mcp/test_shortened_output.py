"""Of an output its beginning and its end are kept, within a bound, in whatever pieces it comes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from egress.mcp.shortened_output import ShortenedOutput

BOUND = 20


def kept(*pieces: bytes) -> ShortenedOutput:
    output = ShortenedOutput(BOUND)
    for piece in pieces:
        output.add(piece)
    return output


@given(st.lists(st.binary(max_size=15)))
def test_it_is_the_whole_or_beginning_and_end(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    output = kept(*pieces)
    if len(whole) <= BOUND:
        assert (output.text(), output.is_truncated) == (whole.decode("utf-8", "replace"), False)
        return
    begin, end = (part.decode("utf-8", "replace") for part in (whole[:10], whole[-10:]))
    assert output.text() == f"{begin}\n[{len(whole) - BOUND} bytes left out]\n{end}"
    assert output.is_truncated


def test_the_newest_line_is_the_last_that_says_something() -> None:
    assert kept().last_line(10) == ""
    assert kept(b"one\n", b"two\n", b"\n").last_line(10) == "two"
    assert kept(b"one\ntw").last_line(10) == "tw"
    assert kept(b"x" * 100).last_line(5) == "xxxxx"
    assert kept(b"a\x1b[1mb\r\n").last_line(10) == "a [1mb"
