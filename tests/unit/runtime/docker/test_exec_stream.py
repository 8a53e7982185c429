"""Output as the engine frames it: any cut of the bytes gives the same pieces."""

from __future__ import annotations

import socket
import struct
import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.runtime.docker.exec_stream import ExecFrameDecoder, ExecStream
from egress.runtime.errors import EngineError
from egress.runtime.supervised_process import StreamName


def framed(number: int, data: bytes) -> bytes:
    return struct.pack(">BxxxL", number, len(data)) + data


def collected(pieces: list[tuple[StreamName, bytes]]) -> dict[str, bytes]:
    found = {"stdout": b"", "stderr": b""}
    for stream, data in pieces:
        found[stream] += data
    return found


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(0, 300), max_size=8),
)
def test_frames_are_read_however_they_are_cut(rows: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(framed(*row) for row in rows)
    frames = ExecFrameDecoder()
    pieces: list[tuple[StreamName, bytes]] = []
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(places):
        pieces += frames.feed(data[start:end])
    wanted = {"stdout": b"", "stderr": b""}
    for number, part in rows:
        wanted["stdout" if number == 1 else "stderr"] += part
    assert collected(pieces) == wanted


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(EngineError, match="unknown form"):
        list(ExecFrameDecoder().feed(b"HTTP/1.1 500 no"))


def test_a_writer_whose_input_is_taken_by_nobody_ends_with_the_stream() -> None:
    """The command has ended, and the engine reads no more."""
    ours, theirs = socket.socketpair()
    with theirs:
        stream = ExecStream(ours, b"", has_terminal=False)
        writer = threading.Thread(target=stream.write, args=(bytes(64 * 1024 * 1024),), daemon=True)
        writer.start()
        # It fills what the kernel holds, and waits from then on.
        while not theirs.recv(1, socket.MSG_PEEK):
            pass
        stream.close()
        writer.join(30)
        assert not writer.is_alive()
