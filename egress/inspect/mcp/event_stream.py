"""Reads event streams (server-sent events), and writes each event anew in one spelling.

Readers of clients differ in where a line ends and in when an event does. So an event that passes is written
with bare line feeds, known fields and nothing else. An event without its empty line never passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_EVENT_BYTES: Final = 1024 * 1024
"""Bytes of one event. The SDK's client takes no larger one either."""
MAX_EVENT_ID_CHARS: Final = 1024
KEEP_ALIVE: Final = b":\n\n"

_LINE_END: Final = re.compile(rb"[\r\n]")
_RETRY: Final = re.compile(rb"[0-9]{1,9}")
_EVENT_ID: Final = re.compile(rf"[\x20-\x7e]{{0,{MAX_EVENT_ID_CHARS}}}".encode())
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# Line ends to readers that split text by Unicode's rules. In JSON they stand in texts alone.
_ODD_LINE_ENDS: Final = {"\u0085": rb"\u0085", "\u2028": rb"\u2028", "\u2029": rb"\u2029"}


class EventStreamError(ValueError):
    """A stream that clients read differently, or an event over its bound."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event, or a comment that keeps a connection alive."""

    data: bytes = b""
    kind: bytes = b""
    event_id: bytes | None = None
    retry: bytes | None = None

    def written(self, data: bytes) -> bytes:
        """Return the event with other data, as clients read it alike."""
        for char, escaped in _ODD_LINE_ENDS.items():
            data = data.replace(char.encode(), escaped)
        lines = [b"event: " + self.kind] if self.kind else []
        if self.event_id is not None:
            lines.append(b"id: " + self.event_id)
        if self.retry is not None:
            lines.append(b"retry: " + self.retry)
        lines += [b"data: " + line for line in data.split(b"\n")] if data or lines else []
        return b"\n".join(lines) + b"\n\n" if lines else KEEP_ALIVE


class EventReader:
    """Cuts a stream into events, however its bytes were cut."""

    __slots__ = (
        "_after_return",
        "_data",
        "_event_id",
        "_has_begun",
        "_has_fields",
        "_kind",
        "_line",
        "_retry",
        "_size",
    )

    def __init__(self) -> None:
        self._line = bytearray()
        self._after_return = False
        self._has_begun = False
        self._clear()

    def _clear(self) -> None:
        self._data = bytearray()
        self._kind = b""
        self._event_id: bytes | None = None
        self._retry: bytes | None = None
        self._has_fields = False
        self._size = 0

    @property
    def held(self) -> int:
        """Bytes of the event that is not whole yet."""
        return self._size + len(self._line)

    def feed(self, data: bytes) -> Iterator[StreamEvent]:
        """Take the next bytes and yield the events that end in them. Raises `EventStreamError`."""
        at = 0
        while at < len(data):
            if self._after_return:
                # The second half of a CR LF ends no other line.
                self._after_return = False
                if data[at] == 0x0A:
                    at += 1
                    continue
            end = _LINE_END.search(data, at)
            stop = len(data) if end is None else end.start()
            self._line += data[at:stop]
            if self.held > MAX_EVENT_BYTES:
                raise EventStreamError("an event is too large")
            if end is None:
                return
            at = stop + 1
            self._after_return = data[stop] == 0x0D
            line = bytes(self._line)
            self._line.clear()
            if (event := self._take(line)) is not None:
                yield event

    def _take(self, line: bytes) -> StreamEvent | None:
        """Take a line; return the event that it ends."""
        if not self._has_begun:
            self._has_begun = True
            if line.startswith(_BYTE_ORDER_MARK):
                raise EventStreamError("the stream begins with a byte order mark")
        if line:
            self._size += len(line) + 1
            return self._take_field(line)
        event = StreamEvent(bytes(self._data[:-1]), self._kind, self._event_id, self._retry)
        has_fields = self._has_fields
        self._clear()
        return event if has_fields else None

    def _take_field(self, line: bytes) -> StreamEvent | None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"":
                # A comment outside of an event keeps a connection alive. Its text is nobody's business.
                return None if self._has_fields else StreamEvent()
            case b"data":
                self._data += value + b"\n"
            case b"event":
                self._kind = value
            case b"id":
                if not _EVENT_ID.fullmatch(value):
                    raise EventStreamError("the id of an event is malformed")
                self._event_id = value
            case b"retry" if _RETRY.fullmatch(value):
                self._retry = value
            case _:
                return None
        self._has_fields = True
        return None
