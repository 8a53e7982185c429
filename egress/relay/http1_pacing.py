"""Where a read of an HTTP/1 connection is cut, so that each piece is little work.

How much work a byte makes is not known before: it may be part of a download, of a chunk of one byte, of a
compressed body a thousand times as long. So a message begins with small pieces, and they double while there
is time left behind them. A WebSocket is cut behind a few frames, since each is as much work as a thousand
bytes. This module counts only: faults in frames are found by `websocket`.
"""

from __future__ import annotations

from typing import Final

MIN_PIECE_BYTES: Final = 4 * 1024
MAX_PIECE_BYTES: Final = 256 * 1024
_MAX_FRAMES_PER_PIECE: Final = 8
_MAX_FRAME_BYTES_PER_PIECE: Final = 32 * 1024


class PacedHttp1:
    """The pacing of an HTTP/1 connection, of either side."""

    _is_raw = False
    """The connection has become a WebSocket."""
    _cutter: FrameCutter
    _piece_bytes = MIN_PIECE_BYTES

    def _begin_message(self) -> None:
        """Begin anew with small pieces: nothing is known of the message that comes."""
        self._piece_bytes = MIN_PIECE_BYTES

    def _begin_frames(self) -> None:
        """Cut what comes between frames from here on."""
        self._is_raw = True
        self._cutter = FrameCutter()

    def piece_end(self, data: bytes, start: int) -> int:
        """Return where the bytes end that are read in one go."""
        if self._is_raw:
            return self._cutter.piece_end(data, start)
        return min(start + self._piece_bytes, len(data))

    def note_piece(self, *, is_over: bool) -> None:
        """A piece has been read; `is_over`: it took all the time that there was."""
        if is_over:
            self._piece_bytes = max(self._piece_bytes // 2, MIN_PIECE_BYTES)
        elif self._piece_bytes < MAX_PIECE_BYTES:
            self._piece_bytes *= 2


class FrameCutter:
    """Finds the ends of WebSocket frames. It finds no faults: `websocket` does."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = b""
        """The beginning of a frame whose length is still unknown."""
        self._left = 0
        """Bytes of a frame that are still to come."""

    def piece_end(self, data: bytes, start: int) -> int:
        """Return where the bytes end that are read in one go; called once for each piece, in their order."""
        at, end, frames = start, min(len(data), start + _MAX_FRAME_BYTES_PER_PIECE), 0
        while at < end:
            if self._left:
                step = min(self._left, end - at)
                self._left -= step
                at += step
                continue
            if frames == _MAX_FRAMES_PER_PIECE:
                break
            frames += 1
            head = self._head + data[at : at + _LONGEST_HEAD_BYTES - len(self._head)]
            size = _size_of(head)
            if size is None:
                # Too little of it is there: all that is left of the data is part of this head.
                self._head = head
                return len(data)
            self._left, self._head = size - len(self._head), b""
        return at


_LONGEST_HEAD_BYTES: Final = 14


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
