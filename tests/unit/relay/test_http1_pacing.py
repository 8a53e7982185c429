"""Small frames are counted, and a read that holds many is cut between frames."""

from __future__ import annotations

from egress.relay.http1_pacing import MAX_SMALL_FRAMES, FramePacer


def test_bytes_are_cut_only_between_frames_and_none_is_lost() -> None:
    tiny, masked, longer = b"\x82\x01x", b"\x82\x81\0\0\0\0y", b"\x82\x7e\x01\x00" + b"z" * 256
    longest = b"\x82\x7f" + (70_000).to_bytes(8, "big") + b"w" * 70_000
    data = (tiny * 100 + longer + masked * 100 + longest + tiny * 100) * 2
    for size in (1, 2, 3, 7, 1000, len(data)):
        pacer, back = FramePacer(), b""
        for at in range(0, len(data), size):
            for piece in pacer.cut(data[at : at + size]):
                pacer.passed()
                back += piece
        assert back == data
        assert pacer._small == 600, size
    assert [len(piece) for piece in FramePacer().cut(tiny * 300)] == [384, 384, 132]


def test_too_many_small_frames_in_a_second_are_too_many_until_it_is_over() -> None:
    pacer = FramePacer()
    pieces = pacer.cut(b"\x82\x01x" * MAX_SMALL_FRAMES)
    for _ in pieces[:-1]:
        assert not pacer.is_full
        pacer.passed()
    pacer.passed()
    assert pacer.is_full
    pacer.new_second()
    assert not pacer.is_full
