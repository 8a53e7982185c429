"""GOAWAY of a peer that closes in good order, taken out of what the h2 library reads.

An upstream that has served its number of requests says so and still answers those under way; a client
that shuts down still waits for its answers. The library takes the same frame for the end of the
connection. So frames are told apart here, by their headers alone, and a GOAWAY without an error does
not get to it.

Neither does any part of a frame that is longer than we have allowed: the library would keep up to 16 MiB
of it before it looks at the length, and no window or budget counts them.
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


class GoAway(NamedTuple):
    """The peer takes no more streams, and will not look at those above the last."""

    last_stream: int


class GoAwayFilter:
    """Splits what comes in into bytes for the library, and goodbyes."""

    def __init__(self, *, preface: int = 0) -> None:
        """`preface`: so many bytes come before the first frame."""
        self._held = bytearray()
        self._left = preface
        """Bytes, of a frame mostly, that are still to come and go on as they are."""

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
