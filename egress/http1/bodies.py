"""Bodies that need no parsing: counted ones, and those that run until the sender closes.

A body object is given bytes until it says that the message is complete; then it returns what was
left over. Bytes pass through without being copied wherever a read holds nothing else.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, Protocol

from egress.errors import WireError
from egress.http1.events import END, Body, Data, Emit, End, Framing
from egress.http1.field_block import BlockBuffer
from egress.http1.limits import MessageLimits
from egress.http1.trailers import read_trailers


class BodyReader(Protocol):
    """Reads the body of one message."""

    def take(self, data: bytes, emit: Emit) -> bytes | None:
        """Emit what `data` holds; return the rest once the body is complete."""

    def close(self) -> End:
        """Take note that the sender closed; raises WireError where the body is cut short."""


class CountedBody:
    """Exactly as many bytes as Content-Length stated."""

    __slots__ = ("_left",)

    def __init__(self, length: int) -> None:
        self._left = length

    def take(self, data: bytes, emit: Emit) -> bytes | None:
        left = self._left
        if len(data) < left:
            self._left -= len(data)
            emit(Data(data))
            return None
        emit(Data(data[:left]))
        emit(END)
        return data[left:]

    def close(self) -> End:
        raise cut_short()


class OpenEndedBody:
    """Everything until the sender closes."""

    __slots__ = ()

    def take(self, data: bytes, emit: Emit) -> bytes | None:
        emit(Data(data))
        return None

    def close(self) -> End:
        return END


def read_body(framing: Framing, limits: MessageLimits, *, of_request: bool) -> BodyReader | None:
    """Return the reader for a body, or None where there is none to read."""
    body = framing.body
    if body is Body.NONE:
        return None
    if body is Body.LENGTH:
        return CountedBody(framing.length) if framing.length else None
    return ChunkedBody(limits, of_request=of_request) if body is Body.CHUNKED else OpenEndedBody()


# Chunked bodies: sizes, extensions, trailers.
#
# A chunk is a size of at most 16 hex digits, maybe an extension, CR LF, the data, CR LF. Nothing else
# is understood: no white space around the size, no sign, no prefix, no LF alone. Extensions are
# dropped, for nobody behind us may act on what we did not read; they are bounded each, and together
# by the data they come with, so that they cannot be sent for their own sake.
#
# The line end behind a chunk is read together with the size line that follows it: one pattern matches
# a complete line, one matches what may still become one. What matches neither is refused, so the
# verdict does not depend on how the bytes were cut.
class _Lines(NamedTuple):
    first: re.Pattern[bytes]
    first_part: re.Pattern[bytes]
    later: re.Pattern[bytes]
    later_part: re.Pattern[bytes]


@lru_cache(maxsize=8)
def _lines(extension: int) -> _Lines:
    """Compile the patterns of size lines whose extensions have at most so many bytes."""
    size, blank = rb"([0-9A-Fa-f]{1,16}+)", rb"[\t\x20-\x7e\x80-\xff]"
    tail = rb"(;%b{0,%d}+)?+" % (blank, max(0, extension - 1)) if extension else rb"()"
    part = size + tail + rb"\r?+"
    return _Lines(
        re.compile(size + tail + rb"\r\n"),
        re.compile(part),
        re.compile(rb"\r\n" + size + tail + rb"\r\n"),
        re.compile(rb"\r(?:\n(?:%b)?+)?+" % part),
    )


class ChunkedBody:
    """Reads one chunked body and its trailers."""

    def __init__(self, limits: MessageLimits, *, of_request: bool) -> None:
        self._limits = limits
        self._of_request = of_request
        self._lines = _lines(limits.chunk_extension)
        self._trailers = BlockBuffer(limits.trailers)
        self._allowance = limits.chunk_extensions
        self._kept = b""
        self._left = 0
        self._started = False
        self._in_trailers = False

    def take(self, data: bytes, emit: Emit) -> bytes | None:
        """Emit what `data` holds; return the rest once the body is complete."""
        if len(data) < self._left:
            self._left -= len(data)
            emit(Data(data))
            return None
        if not self._in_trailers:
            parts: list[bytes] = []
            rest = self._take_chunks(self._kept + data, parts)
            if parts:
                emit(Data(parts[0] if len(parts) == 1 else b"".join(parts)))
            if rest is None:
                return None
            data = rest
        return self._take_trailers(data, emit)

    def close(self) -> End:
        """Refuse the end of the connection: only the last chunk ends a chunked body."""
        raise cut_short()

    def _take_chunks(self, data: bytes, parts: list[bytes]) -> bytes | None:
        """Collect chunk data into `parts`; return what follows the last size line, once it is there."""
        self._kept = b""
        position = 0
        while position < len(data):
            if self._left:
                part = data[position : position + self._left]
                parts.append(part)
                self._left -= len(part)
                position += len(part)
                continue
            line = (self._lines.later if self._started else self._lines.first).match(data, position)
            if line is None:
                self._kept = self._part_of_line(data, position)
                return None
            position = line.end()
            if self._begin_chunk(line):
                self._in_trailers = True
                return data[position:]
        return None

    def _part_of_line(self, data: bytes, position: int) -> bytes:
        """Return the beginning of a size line, to be kept until the rest of it is here."""
        part = self._lines.later_part if self._started else self._lines.first_part
        if part.fullmatch(data, position) is None:
            raise WireError("A chunk is malformed, or its extension is too long.")
        return data[position:]

    def _begin_chunk(self, line: re.Match[bytes]) -> bool:
        """Take in a size line; tell whether it was the last."""
        self._started = True
        self._allowance -= len(line[2] or b"")
        if self._allowance < 0:
            raise WireError("The chunk extensions outweigh the data.", "Send the body without extensions.")
        self._left = int(line[1], 16)
        # Data earns allowance for the lines behind it: this line was already paid for.
        self._allowance += self._left
        return not self._left

    def _take_trailers(self, data: bytes, emit: Emit) -> bytes | None:
        if not self._trailers.started:
            data = self._kept + data
            self._kept = b""
            if data[:2] == b"\r\n":
                emit(END)
                return data[2:]
            if data == b"\r":
                self._kept = data
                return None
        found = self._trailers.take(data)
        if found is None:
            return None
        block, rest = found
        emit(End(read_trailers(block, self._limits.trailer_fields, of_request=self._of_request)))
        return rest


def cut_short() -> WireError:
    """Say that the sender closed in the middle of a body."""
    return WireError("The body ends before it is complete.")
