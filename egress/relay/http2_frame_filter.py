"""Filter HTTP/2 frames before the h2 library reads them: goodbyes, and frames or heads that are too long.

An upstream that has served its number of requests says so and still answers those under way; a client
that shuts down still waits for its answers. The library takes the same frame for the end of the
connection. So frames are told apart here, by their headers alone, and a GOAWAY without an error does
not get to it.

Neither does any part of a frame that is longer than we have allowed, or of a head in too many frames: the
library would keep up to 16 MiB of it before it looks at the length, and no window or budget counts them.

Since frames are told apart here, it is also here that what came is cut for turns: a head is read alone, other
frames a few at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from h2.exceptions import FrameTooLargeError

_HEADER_BYTES: Final = 9
_GOAWAY_TYPE: Final = 7
_MIN_GOAWAY_BYTES: Final = 8
_MAX_FRAME_BYTES: Final = 16 * 1024
"""Bytes that a frame may have: what HTTP/2 allows to whoever was not told that it may be more."""


MAX_HEAD_BLOCK_BYTES: Final = 64 * 1024
"""Bytes of the frames that hold a head: no head is longer coded than it is in full."""
_MAX_FRAMES_PER_PIECE: Final = 8
_HEADERS_TYPE: Final = 1
_HEAD_TYPES: Final = frozenset({_HEADERS_TYPE, 5, 9})
"""HEADERS, PUSH_PROMISE and CONTINUATION."""


_RESET_FRAME_START: Final = b"\0\0\4\3"
"""Length and type of a RST_STREAM."""


class GoAway(NamedTuple):
    """The peer takes no more streams, and will not look at those above the last."""

    last_stream: int


class FrameFilter:
    """Splits what comes in into bytes for the library, and goodbyes."""

    def __init__(self, *, preface: int = 0) -> None:
        """`preface`: so many bytes come before the first frame."""
        self._held = bytearray()
        self._left = preface
        """Bytes, of a frame mostly, that are still to come and go on as they are."""
        self._block = 0
        """Bytes of the frames of the head that is being sent."""

    def piece_end(self, data: bytes, start: int) -> int:
        """Return where the bytes end that can be read at once: behind a head, or behind a few frames."""
        held, at = bytes(self._held), start + self._left
        frames = 0
        while at < len(data):
            head = held[:_HEADER_BYTES] + data[at : at + max(_HEADER_BYTES - len(held), 0)]
            if len(head) < _HEADER_BYTES:
                break
            is_head = head[3] in _HEAD_TYPES
            if frames and (is_head or frames == _MAX_FRAMES_PER_PIECE or at - start > _MAX_FRAME_BYTES):
                return at
            at += _HEADER_BYTES - len(held) + int.from_bytes(head[:3], "big")
            if is_head:
                # A request that is taken back at once need not be looked at.
                return self._behind_reset(data, at)
            held = b""
            frames += 1
        return min(at, len(data)) if at > start else len(data)

    def feed(self, data: bytes) -> Iterator[bytes | GoAway]:
        """Take in bytes; give out what can go on. Raises `FrameTooLargeError`, also behind what goes on."""
        data = bytes(self._held) + data if self._held else data
        self._held.clear()
        start = at = 0
        # Frames other than a GOAWAY of the connection pass as they came: their payload is only skipped.
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                continue
            length = int.from_bytes(data[at : at + 3], "big")
            # A header in pieces waits for the rest of it; its length counts only when it is whole.
            if len(data) - at < _HEADER_BYTES:
                self._held += data[at:]
                break
            if length > _MAX_FRAME_BYTES:
                raise FrameTooLargeError("a frame is longer than was allowed")
            self._measure_head(data[at + 3], length)
            if data[at + 3] != _GOAWAY_TYPE or length < _MIN_GOAWAY_BYTES:
                self._left = _HEADER_BYTES + length
                continue
            if len(data) - at < _HEADER_BYTES + length:
                self._held += data[at:]
                break
            frame = data[at + _HEADER_BYTES : at + _HEADER_BYTES + length]
            if frame[4:8] != b"\0\0\0\0":
                self._left = _HEADER_BYTES + length
                continue
            if at > start:
                yield data[start:at]
            yield GoAway(int.from_bytes(frame[:4], "big") & 0x7FFF_FFFF)
            start = at = at + _HEADER_BYTES + length
        if at > start:
            yield data[start:at]

    @staticmethod
    def _behind_reset(data: bytes, at: int) -> int:
        """Return where a RST_STREAM ends that begins here, or here."""
        is_reset = data[at : at + 4] == _RESET_FRAME_START
        return min(at + _HEADER_BYTES + 4 if is_reset else at, len(data))

    def _measure_head(self, kind: int, length: int) -> None:
        if kind in _HEAD_TYPES:
            self._block = length if kind == _HEADERS_TYPE else self._block + length
            if self._block > MAX_HEAD_BLOCK_BYTES:
                raise FrameTooLargeError("a head is longer than was allowed")
