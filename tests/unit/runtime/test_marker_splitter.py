"""A mark is found however the stream is cut, and all else is passed on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from egress.runtime.marker_splitter import MarkerSplitter

MARK = b"abcab"


def cut(data: bytes, sizes: list[int]) -> tuple[bytes, list[bytes]]:
    told: list[bytes] = []
    found: list[bytes] = []
    cutter = MarkerSplitter(MARK, told.append, found.append)
    at = 0
    for size in [*sizes, len(data)]:
        cutter.add(data[at : at + size])
        at += size
    cutter.rest()
    return b"".join(told), found


@given(some.text(alphabet="abc\n", max_size=40), some.lists(some.integers(0, 4), max_size=30))
def test_the_cut_does_not_matter(text: str, sizes: list[int]) -> None:
    assert cut(text.encode(), sizes) == cut(text.encode(), [])


@given(some.lists(some.integers(0, 7), max_size=20))
def test_marks_are_taken_out(sizes: list[int]) -> None:
    assert cut(b"abcabb 1\nabca" + b"one" + MARK + b" 0\ntwo\n" + MARK + b" 12\n", sizes) == (
        b"abcaonetwo\n",
        [b"b 1", b"0", b"12"],
    )


def test_what_cannot_be_a_mark_is_passed_on_at_once() -> None:
    told: list[bytes] = []
    cutter = MarkerSplitter(MARK, told.append, told.append)
    cutter.add(b"hello abc")
    assert told == [b"hello "]
