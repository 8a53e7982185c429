"""Frames come back as they went, and nothing else is taken for one."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.fleet.errors import FleetProtocolError
from egress.fleet.rpc_frames import (
    MAX_HEAD_BYTES,
    MAX_PIECE_BYTES,
    FrameKind,
    FrameParser,
    RpcFrame,
    encode,
    make_head,
    split_pieces,
)

DATA = st.binary(max_size=300)
FRAMES = st.lists(
    st.one_of(
        st.builds(lambda text: make_head(said=text), st.text(max_size=50)),
        st.builds(lambda data: RpcFrame(FrameKind.INPUT, data), DATA),
        st.builds(lambda data: RpcFrame(FrameKind.OUTPUT, data), DATA),
        st.builds(lambda data: RpcFrame(FrameKind.ERRORS, data), DATA),
        st.sampled_from([RpcFrame(FrameKind.END), RpcFrame(FrameKind.TAKEN)]),
    ),
    max_size=8,
)


@given(FRAMES, st.lists(st.integers(0, 400), max_size=30))
def test_however_the_bytes_are_cut_the_frames_are_the_same(frames: list[RpcFrame], cuts: list[int]) -> None:
    data = b"".join(map(encode, frames))
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parser = FrameParser()
    found = [frame for a, b in pairwise(edges) for frame in parser.feed(data[a:b])]
    assert found == frames
    assert parser.is_between


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    """Nothing else is ever raised, neither for frames nor for what is in a head."""
    try:
        for frame in FrameParser().feed(data):
            assert encode(frame) in data
            if frame.kind is FrameKind.HEAD:
                assert isinstance(frame.head, dict)
    except FleetProtocolError:
        pass


@pytest.mark.parametrize(
    ("kind", "length"),
    [
        (0, 0),
        (7, 0),
        (255, 1),
        (FrameKind.END, 1),
        (FrameKind.TAKEN, 1),
        (FrameKind.OUTPUT, MAX_PIECE_BYTES + 1),
        (1, MAX_HEAD_BYTES + 1),
    ],
)
def test_what_is_too_long_is_refused_before_it_has_come(kind: int, length: int) -> None:
    with pytest.raises(FleetProtocolError):
        list(FrameParser().feed(struct.pack("!BI", kind, length)))


def test_the_frame_before_a_wrong_one_has_come_by_then() -> None:
    frames = FrameParser().feed(encode(RpcFrame(FrameKind.TAKEN)) + b"\xff\0\0\0\0")
    assert next(frames) == RpcFrame(FrameKind.TAKEN)
    with pytest.raises(FleetProtocolError):
        next(frames)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"1", b"{", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":Infinity}', b"\xff", b"[" * 100_000],
)
def test_a_head_is_one_plain_object(text: bytes) -> None:
    with pytest.raises(FleetProtocolError):
        _ = RpcFrame(FrameKind.HEAD, text).head
    assert RpcFrame(FrameKind.HEAD, b'{"a":1}').head == {"a": 1}


def test_bytes_of_a_stream_are_no_head() -> None:
    with pytest.raises(FleetProtocolError):
        _ = RpcFrame(FrameKind.OUTPUT, b"{}").head


def test_a_stream_is_cut_into_pieces_that_fit() -> None:
    data = b"x" * (2 * MAX_PIECE_BYTES + 1)
    found = list(split_pieces(FrameKind.OUTPUT, data))
    assert [len(each.data) for each in found] == [MAX_PIECE_BYTES, MAX_PIECE_BYTES, 1]
    assert b"".join(each.data for each in found) == data
    assert list(split_pieces(FrameKind.OUTPUT, b"")) == []


def test_what_is_too_much_for_a_frame_is_said_to_whoever_asks() -> None:
    with pytest.raises(FleetProtocolError, match="too large for one message"):
        encode(make_head(env="x" * MAX_HEAD_BYTES))


def test_bytes_that_are_no_text_survive_in_a_head() -> None:
    """Arguments of a command can be any bytes; the system hands them over like this."""
    odd = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert make_head(argv=[odd]).head == {"argv": [odd]}
