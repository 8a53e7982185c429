"""Bodies that need no parsing: counted ones, and those that run until the sender closes.

A body object is given bytes until it says that the message is complete; then it returns what was
left over. Bytes pass through without being copied wherever a read holds nothing else.
"""

from __future__ import annotations

from typing import Protocol

from egress.http1.chunked import ChunkedBody, cut_short
from egress.http1.events import END, Body, Data, Emit, End, Framing
from egress.http1.limits import Limits


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


def read_body(framing: Framing, limits: Limits, *, of_request: bool) -> BodyReader | None:
    """Return the reader for a body, or None where there is none to read."""
    body = framing.body
    if body is Body.NONE:
        return None
    if body is Body.LENGTH:
        return CountedBody(framing.length) if framing.length else None
    return ChunkedBody(limits, of_request=of_request) if body is Body.CHUNKED else OpenEndedBody()
