"""Frames come back as they went, and nothing else is taken for one."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.fleet.errors import FleetProtocolError
from egress.fleet.wire import MOST_HEAD, PIECE, Frame, Kind, Parser, encode, head, pieces

DATA = st.binary(max_size=300)
FRAMES = st.lists(
    st.one_of(
        st.builds(lambda text: head(said=text), st.text(max_size=50)),
        st.builds(lambda data: Frame(Kind.INPUT, data), DATA),
        st.builds(lambda data: Frame(Kind.OUTPUT, data), DATA),
        st.builds(lambda data: Frame(Kind.ERRORS, data), DATA),
        st.sampled_from([Frame(Kind.END), Frame(Kind.TAKEN)]),
    ),
    max_size=8,
)


@given(FRAMES, st.lists(st.integers(0, 400), max_size=30))
def test_however_the_bytes_are_cut_the_frames_are_the_same(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(map(encode, frames))
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parser = Parser()
    found = [frame for a, b in pairwise(edges) for frame in parser.feed(data[a:b])]
    assert found == frames
    assert parser.is_between


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    """Nothing else is ever raised, neither for frames nor for what is in a head."""
    try:
        for frame in Parser().feed(data):
            assert encode(frame) in data
            if frame.kind is Kind.HEAD:
                assert isinstance(frame.head, dict)
    except FleetProtocolError:
        pass


@pytest.mark.parametrize(
    ("kind", "length"),
    [(0, 0), (7, 0), (255, 1), (Kind.END, 1), (Kind.TAKEN, 1), (Kind.OUTPUT, PIECE + 1), (1, MOST_HEAD + 1)],
)
def test_what_is_too_long_is_refused_before_it_has_come(kind: int, length: int) -> None:
    with pytest.raises(FleetProtocolError):
        list(Parser().feed(struct.pack("!BI", kind, length)))


def test_the_frame_before_a_wrong_one_has_come_by_then() -> None:
    frames = Parser().feed(encode(Frame(Kind.TAKEN)) + b"\xff\0\0\0\0")
    assert next(frames) == Frame(Kind.TAKEN)
    with pytest.raises(FleetProtocolError):
        next(frames)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"1", b"{", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":Infinity}', b"\xff", b"[" * 100_000],
)
def test_a_head_is_one_plain_object(text: bytes) -> None:
    with pytest.raises(FleetProtocolError):
        _ = Frame(Kind.HEAD, text).head
    assert Frame(Kind.HEAD, b'{"a":1}').head == {"a": 1}


def test_bytes_of_a_stream_are_no_head() -> None:
    with pytest.raises(FleetProtocolError):
        _ = Frame(Kind.OUTPUT, b"{}").head


def test_a_stream_is_cut_into_pieces_that_fit() -> None:
    data = b"x" * (2 * PIECE + 1)
    found = list(pieces(Kind.OUTPUT, data))
    assert [len(each.data) for each in found] == [PIECE, PIECE, 1]
    assert b"".join(each.data for each in found) == data
    assert list(pieces(Kind.OUTPUT, b"")) == []


def test_what_is_too_much_for_a_frame_is_said_to_whoever_asks() -> None:
    with pytest.raises(FleetProtocolError, match="too much for one message"):
        encode(head(env="x" * MOST_HEAD))


def test_bytes_that_are_no_text_survive_in_a_head() -> None:
    """Arguments of a command can be any bytes; the system hands them over like this."""
    odd = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert head(argv=[odd]).head == {"argv": [odd]}
