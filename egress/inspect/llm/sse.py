"""Server-sent events, cut out of a stream without a change to its bytes.

Any of the three line endings ends a line, and pieces may be cut anywhere. Each event comes with the bytes
that it was written in, so that a stream without it is the rest of the stream, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from egress.types import value_class

MAX_SSE_EVENT_BYTES: Final = 1 << 20
"""Bytes of an event with its lines; a longer one passes unread."""

# A return at the end of what has come may be the first half of a line ending, so it is none yet.
_BLANK_LINE: Final = re.compile(rb"(?:\r\n|\n|\r(?=[^\n]))(?:\r\n|\n|\r(?=[^\n]))")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_MAX_BLANK_LINE_BYTES: Final = 4
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@value_class
class SseEvent:
    """An event, or a part of the stream that is none."""

    raw: bytes
    """The bytes that it stands in, with the blank line behind it."""
    data: bytes = b""
    """Its data, lines joined; empty for a comment."""
    name: str = ""
    is_unread: bool = False
    """A part of an event that is too long to be read."""


class SseReader:
    """Cuts a stream into events. It keeps at most one of them."""

    __slots__ = ("_is_first", "_is_unread", "_pending", "_searched")

    def __init__(self) -> None:
        self._pending = bytearray()
        self._searched = 0
        """The bytes in which no blank line begins."""
        self._is_unread = False
        self._is_first = True

    @property
    def held(self) -> int:
        """The bytes that are kept."""
        return len(self._pending)

    def feed(self, data: bytes) -> Iterator[SseEvent]:
        """Take the next bytes; yield the events that they complete. To be run to its end."""
        self._pending += data
        while (found := _BLANK_LINE.search(self._pending, self._searched)) is not None:
            raw = bytes(self._pending[: found.end()])
            del self._pending[: found.end()]
            self._searched = 0
            yield self._event(raw)
        # A blank line may have begun with the last bytes.
        self._searched = max(0, len(self._pending) - _MAX_BLANK_LINE_BYTES + 1)
        if len(self._pending) > MAX_SSE_EVENT_BYTES or (self._is_unread and self._searched):
            self._is_unread = True
            raw = bytes(self._pending[: self._searched])
            del self._pending[: self._searched]
            self._searched = 0
            yield SseEvent(raw, is_unread=True)

    def end(self) -> SseEvent | None:
        """Return the rest of the stream: the standard takes it for no event, some clients do."""
        if not self._pending:
            return None
        raw = bytes(self._pending)
        self._pending.clear()
        return self._event(raw)

    def _event(self, raw: bytes) -> SseEvent:
        if self._is_unread or len(raw) > MAX_SSE_EVENT_BYTES:
            self._is_unread = False
            return SseEvent(raw, is_unread=True)
        lines = _LINE_END.split(raw.removeprefix(_BYTE_ORDER_MARK) if self._is_first else raw)
        self._is_first = False
        data: list[bytes] = []
        name = b""
        for line in lines:
            key, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if key == b"data":
                data.append(value)
            elif key == b"event":
                name = value
        return SseEvent(raw, b"\n".join(data), name.decode("utf-8", "replace"))
