"""How much of a read an HTTP/1 connection handles in one turn.

A small WebSocket frame costs as much as a long one, so a read that holds many is handled in pieces, and
frames beyond the bound of a second wait for the next second. This module counts only: faults in frames are
found by `websocket`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

SMALL_FRAME_BYTES: Final = 16
"""Payloads below this size cost more to look at than to carry."""
MAX_SMALL_FRAMES: Final = 2000
"""Small frames in a second."""
_MAX_FRAMES_PER_PIECE: Final = 128
"""Small frames at a time, before other connections get their turn."""
_SHORT_HEAD_BYTES: Final = 6
UNCUT_BYTES: Final = 1 << 30
"""A slice that no read reaches."""


class PacedHttp1:
    """The pacing of an HTTP/1 connection, of either side. Before a switch to frames nothing is counted."""

    _is_raw = False
    """The connection has become a WebSocket."""
    _pacer: FramePacer
    slice = UNCUT_BYTES
    """Bytes of a read that are handled at once: heads are not many, and frames are counted before."""

    def _begin_frames(self) -> None:
        """Count what comes as frames from here on."""
        self._is_raw = True
        self._pacer = FramePacer()
        self.slice = 0

    @property
    def is_busy(self) -> bool:
        """The last piece was much work."""
        return self._is_raw

    @property
    def is_full(self) -> bool:
        """The connection has had all that it may have in this second."""
        return self._is_raw and self._pacer.is_full

    def slices(self, data: bytes) -> list[bytes]:
        """Cut a read into pieces that mean bounded work."""
        return self._pacer.cut(data) if self._is_raw else [data]


class FramePacer:
    """Counts the small frames that a side sends. It finds no faults: `websocket` does."""

    __slots__ = ("_counts", "_head", "_left", "_small")

    def __init__(self) -> None:
        self._head = b""
        """The beginning of a frame whose length is still unknown."""
        self._left = 0
        """Bytes of a frame that are still to come."""
        self._counts: deque[int] = deque()
        self._small = 0

    @property
    def is_full(self) -> bool:
        """Too many small frames came in this second."""
        return self._small >= MAX_SMALL_FRAMES

    def new_second(self) -> None:
        """Begin to count anew."""
        self._small = 0

    def passed(self) -> None:
        """The next piece has been handed on."""
        if self._counts:
            self._small += self._counts.popleft()

    def cut(self, data: bytes) -> list[bytes]:
        """Return the same bytes in pieces, none of which holds too many small frames."""
        pieces: list[bytes] = []
        start = small = 0
        # The held bytes are the end of the last read, so positions in `data` may be negative.
        at, kept = -len(self._head), self._head
        head = kept + data[:16] if kept else b""
        self._head = b""
        while True:
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
            if at >= len(data):
                break
            frame = head[at + len(kept) :] if at < 0 else data[at : at + 14]
            size = _size_of(frame)
            if size is None:
                self._head = frame[:14]
                break
            if size < SMALL_FRAME_BYTES + _SHORT_HEAD_BYTES:
                small += 1
                if small > _MAX_FRAMES_PER_PIECE and at > start:
                    pieces.append(data[start:at])
                    self._counts.append(small - 1)
                    start, small = at, 1
            self._left = size
        pieces.append(data[start:])
        self._counts.append(small)
        return pieces


def _size_of(frame: bytes) -> int | None:
    """The bytes of a frame with its head; None while too little of it is there."""
    if len(frame) < 2:
        return None
    length = frame[1] & 0x7F
    more = {126: 2, 127: 8}.get(length, 0)
    if len(frame) < 2 + more:
        return None
    if more:
        length = int.from_bytes(frame[2 : 2 + more], "big")
    return 2 + more + (4 if frame[1] & 0x80 else 0) + length
