"""A read is cut into small pieces, a WebSocket between its frames, and no byte is lost."""

from __future__ import annotations

import pytest

from egress.relay.http1_pacing import MAX_PIECE_BYTES, MIN_PIECE_BYTES, FrameCutter, PacedHttp1


def pieces(cutter: FrameCutter, data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        end = cutter.piece_end(data, at)
        assert end > at
        found.append(data[at:end])
        at = end
    return found


TINY, MASKED = b"\x82\x01x", b"\x82\x81\0\0\0\0y"
LONGER = b"\x82\x7e\x01\x00" + b"z" * 256
LONGEST = b"\x82\x7f" + (70_000).to_bytes(8, "big") + b"w" * 70_000


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000, 1 << 20])
def test_a_piece_holds_few_frames_however_the_reads_fall(size: int) -> None:
    frames = ([TINY] * 100 + [LONGER] + [MASKED] * 100 + [LONGEST] + [TINY] * 100) * 2
    data = b"".join(frames)
    starts = {sum(map(len, frames[:number])) for number in range(len(frames))}
    cutter, at = FrameCutter(), 0
    for begin in range(0, len(data), size):
        for piece in pieces(cutter, data[begin : begin + size]):
            assert len([start for start in starts if at <= start < at + len(piece)]) <= 9
            assert len(piece) <= 32 * 1024 + 14
            at += len(piece)
    assert at == len(data)
    assert cutter.piece_end(TINY, 0) == len(TINY), "the last frame was whole"


def test_small_frames_are_cut_only_between_them() -> None:
    assert [len(piece) for piece in pieces(FrameCutter(), TINY * 20)] == [24, 24, 12]


def test_pieces_of_a_message_grow_while_there_is_time_and_shrink_when_there_is_none() -> None:
    half, data = PacedHttp1(), bytes(2 * MAX_PIECE_BYTES)
    sizes = []
    for _ in range(8):
        sizes.append(half.piece_end(data, 100) - 100)
        half.note_piece(is_over=False)
    assert sizes == [MIN_PIECE_BYTES << number for number in range(7)] + [MAX_PIECE_BYTES]
    half.note_piece(is_over=True)
    assert half.piece_end(data, 0) == MAX_PIECE_BYTES // 2
    for _ in range(20):
        half.note_piece(is_over=True)
    assert half.piece_end(data, 0) == MIN_PIECE_BYTES
    assert half.piece_end(data, len(data) - 5) == len(data)


def test_a_message_begins_with_small_pieces_whatever_the_last_one_was() -> None:
    half, data = PacedHttp1(), bytes(MAX_PIECE_BYTES)
    half.note_piece(is_over=False)
    half._begin_message()
    assert half.piece_end(data, 0) == MIN_PIECE_BYTES
