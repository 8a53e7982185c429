"""GOAWAY without an error is taken out, everything else goes on byte for byte."""

from __future__ import annotations

import contextlib
import struct

import pytest
from h2.exceptions import FrameTooLargeError
from hypothesis import given
from hypothesis import strategies as st

from egress.relay.http2_frame_filter import FrameFilter, GoAway


def frame(kind: int, payload: bytes, stream: int = 0) -> bytes:
    return struct.pack("!I", len(payload))[1:] + bytes([kind, 0]) + struct.pack("!I", stream) + payload


def goodbye(last: int, error: int = 0, text: bytes = b"") -> bytes:
    return frame(7, struct.pack("!II", last, error) + text)


def fed(data: bytes, cut: int = 0, *, preface: int = 0) -> list[bytes | GoAway]:
    """What comes out, with pieces that follow each other joined."""
    goodbyes = FrameFilter(preface=preface)
    found: list[bytes | GoAway] = []
    for at in range(0, len(data), cut or len(data) or 1):
        for piece in goodbyes.feed(data[at : at + (cut or len(data))]):
            if found and isinstance(piece, bytes) and isinstance(found[-1], bytes):
                found[-1] += piece
            else:
                found.append(piece)
    return found


PING = frame(6, b"12345678")
DATA = frame(0, b"x" * 300, 1)
FRAMES = [PING, DATA, goodbye(1), goodbye(3, 2), frame(77, b""), goodbye(9, 0, b"t")]


def test_a_goodbye_is_told_from_the_frames_around_it() -> None:
    assert fed(PING + goodbye(5, text=b"bye") + DATA) == [PING, GoAway(5), DATA]


def test_a_goodbye_with_an_error_goes_on() -> None:
    data = PING + goodbye(5, 2) + DATA
    assert fed(data) == [data]


def test_one_that_is_too_short_is_left_to_the_library() -> None:
    assert fed(frame(7, b"1234567")) == [frame(7, b"1234567")]


@pytest.mark.parametrize("kind", [0, 1, 7, 0xBE])
@pytest.mark.parametrize("length", [16 * 1024 + 1, (1 << 24) - 1])
def test_a_frame_that_is_too_long_is_refused_by_its_head(kind: int, length: int) -> None:
    """The library would keep all of it first."""
    head = length.to_bytes(3) + bytes([kind, 0, 0, 0, 0, 1])
    with pytest.raises(FrameTooLargeError):
        fed(PING + head)
    longest = frame(kind, b"\1" * 16 * 1024, 1)
    assert fed(longest) == [longest]


def test_the_reserved_bit_is_no_part_of_the_number() -> None:
    assert fed(goodbye(0x8000_0003)) == [GoAway(3)]


def test_what_reads_as_a_goodbye_inside_of_a_frame_is_its_payload() -> None:
    data = frame(0, goodbye(1) * 3, 1)
    assert fed(data) == [data]


def test_a_preface_is_no_frame() -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    assert fed(preface + goodbye(1), preface=len(preface)) == [preface, GoAway(1)]
    assert fed(preface + goodbye(1), 1, preface=len(preface)) == [preface, GoAway(1)]


@given(
    frames=st.lists(
        st.sampled_from([PING, DATA, goodbye(1), goodbye(3, 2), frame(77, b""), goodbye(9, 0, b"t")])
    ),
    cut=st.integers(1, 50),
)
def test_how_it_is_cut_changes_nothing(frames: list[bytes], cut: int) -> None:
    assert fed(b"".join(frames), cut) == fed(b"".join(frames))


@given(data=st.binary(max_size=200), cut=st.integers(1, 20))
def test_any_bytes_go_in(data: bytes, cut: int) -> None:
    with contextlib.suppress(FrameTooLargeError):
        out = b"".join(piece for piece in fed(data, cut) if isinstance(piece, bytes))
        assert len(out) <= len(data)


# Pieces ---------------------------------------------------------------------------------------------

HEADERS = frame(1, b"h" * 20, 1)
MORE = frame(9, b"m" * 20, 1)
RESET = frame(3, b"\0\0\0\x08", 1)


def pieces(data: bytes, cut: int = 0, *, preface: int = 0) -> list[bytes]:
    """What is read at once, where it comes in reads of `cut` bytes."""
    goodbyes = FrameFilter(preface=preface)
    found = []
    for begin in range(0, len(data), cut or len(data)):
        read = data[begin : begin + (cut or len(data))]
        at = 0
        while at < len(read):
            end = goodbyes.piece_end(read, at)
            assert at < end <= len(read)
            list(goodbyes.feed(read[at:end]))
            found.append(read[at:end])
            at = end
    return found


def test_each_head_is_read_alone_and_other_frames_a_few_at_a_time() -> None:
    data = PING * 20 + HEADERS + HEADERS + MORE + PING + HEADERS
    eight = PING * 8
    assert pieces(data) == [eight, eight, PING * 4, HEADERS, HEADERS, MORE, PING, HEADERS]


def test_a_request_is_read_with_the_reset_that_takes_it_back() -> None:
    assert pieces((HEADERS + RESET) * 2 + RESET) == [HEADERS + RESET, HEADERS + RESET, RESET]


def test_big_frames_are_read_two_at_a_time_at_most() -> None:
    big = frame(0, b"x" * 16_000, 1)
    assert max(map(len, pieces(big * 10))) <= 2 * len(big)


@pytest.mark.parametrize("cut", [1, 2, 8, 9, 10, 33, 1000])
def test_pieces_lose_nothing_however_the_reads_fall(cut: int) -> None:
    data = b"PRI" + PING * 3 + HEADERS + MORE + goodbye(3) + DATA + goodbye(5, 2, b"text") + HEADERS
    assert b"".join(pieces(data, cut, preface=3)) == data
    # A read may hold the end of one frame and the beginning of the next, never two heads.
    assert all(piece.count(b"h" * 20) <= 1 for piece in pieces(data, cut, preface=3))


def test_a_head_in_too_many_frames_is_refused() -> None:
    """The library would keep a megabyte of them before it looks."""
    part = b"x" * 16_000
    goodbyes = FrameFilter()
    list(goodbyes.feed(frame(1, part, 1) + frame(9, part, 1) * 3))
    with pytest.raises(FrameTooLargeError):
        list(goodbyes.feed(frame(9, part, 1)))
    # The next head begins anew.
    twin = FrameFilter()
    for _ in range(5):
        list(twin.feed(frame(1, part, 1) + frame(9, part, 1) * 3))
