"""Bytes in, events out: one reader for requests, one for responses. No clock, no socket.

How to drive them
    `feed(data)` returns the events that `data` completes, `eof()` those that the end of the
    connection completes. Every message is one head, any number of `Data`, and one `End`; a
    response may have `Informational` heads in front. Both calls raise `WireError` for what the peer
    must not do, and from then on always. What the failing call had parsed is dropped with it: a
    message whose fault is already in our hands is not acted on.

One exchange at a time
    After `End` a reader waits. A pipelined request stays unparsed until `next_message()` says that
    the exchange before it is over. Its bytes are kept, up to `Limits.pending`; stop reading from the
    socket while `waiting` is true. A response reader has nothing to keep: it reads a response only
    after `expect()`, and bytes nobody asked for make the connection unfit for another exchange.

Requests that do not fit
    A reader of requests may be given `fits`, which looks at each head. A request that does not fit has no
    head and no body, only its `End`: `take_back()` hands it over, with all that came in behind it.

Upgrades
    After the request that asked and the response that agreed, `detach()` hands over, untouched,
    whatever came in behind them, and the reader is done. The same goes for CONNECT.

The outcome depends on the bytes and never on how they were cut, except for the bound on what is kept.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum, auto
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from egress.errors import UsageError, WireError
from egress.http1.fields import BlockBuffer, read_trailers
from egress.http1.heads import (
    END,
    NO_BODY,
    Body,
    Data,
    Emit,
    End,
    Framing,
    Informational,
    RequestHead,
    ResponseHead,
    parse_request_head,
    parse_response_head,
)
from egress.http1.limits import MessageLimits

DEFAULT_LIMITS: Final = MessageLimits()


class _Stage(Enum):
    HEAD = auto()
    BODY = auto()
    WAITING = auto()
    """Between two exchanges, or before a switch of protocols."""
    DETACHED = auto()


class _Reader[HeadT](ABC):
    """The part of a reader that does not care which side it reads."""

    def __init__(self, limits: MessageLimits, stage: _Stage, *, of_request: bool) -> None:
        self._limits = limits
        self._stage = stage
        self._of_request = of_request
        self._intake = BlockBuffer(limits.head, of_request=of_request)
        self._body: BodyReader | None = None
        self._pending = bytearray()
        self._keep_alive = True
        self._may_detach = False
        self._ended = False
        self._fault: WireError | None = None

    @property
    def waiting(self) -> bool:
        """No message is being read, and none will be before a call asks for the next one."""
        return self._stage is _Stage.WAITING

    def feed(self, data: bytes) -> list[HeadT | Data | End]:
        """Take in bytes from the peer and return the events they complete.

        Raises WireError for what the peer must not send, UsageError after `eof` or `detach`.
        """
        self._check_fault()
        if self._ended or self._stage is _Stage.DETACHED:
            raise UsageError("This reader has ended and takes no more data.")
        try:
            if self._stage is _Stage.WAITING:
                self._keep(data)
                return []
            return self._advance(data)
        except WireError as error:
            raise self._fail(error) from None

    def eof(self) -> list[HeadT | Data | End]:
        """Take note that the peer will send no more, and return the events that completes.

        Raises WireError where a message is cut short.
        """
        self._check_fault()
        self._ended = True
        try:
            return self._close()
        except WireError as error:
            raise self._fail(error) from None

    def detach(self) -> bytes:
        """Hand over, untouched, what came in behind a switch of protocols; nothing is read any more.

        Raises UsageError unless the last message asked for a switch, or agreed to one.
        """
        self._check_fault()
        if self._stage is not _Stage.WAITING or not self._may_detach:
            raise UsageError("No switch of protocols is under way on this connection.")
        self._stage = _Stage.DETACHED
        rest = bytes(self._pending)
        self._pending.clear()
        return rest

    @abstractmethod
    def _begin(self, block: bytes, events: list[HeadT | Data | End]) -> Framing | None:
        """Parse a head into `events`; return its framing, or None where another head must follow."""

    @abstractmethod
    def _close_in_head(self) -> None:
        """Refuse the end of the connection where a head should be."""

    def _advance(self, data: bytes) -> list[HeadT | Data | End]:
        events: list[HeadT | Data | End] = []
        rest: bytes | None = data
        while rest:
            if self._stage is _Stage.WAITING:
                self._keep_rest(rest)
                break
            rest = self._read_head(rest, events) if self._body is None else self._read_body(rest, events)
        return events

    def _read_head(self, data: bytes, events: list[HeadT | Data | End]) -> bytes | None:
        found = self._intake.take(data)
        if found is None:
            return None
        block, rest = found
        framing = self._begin(block, events)
        if framing is None:
            return rest
        self._body = read_body(framing, self._limits, of_request=self._of_request)
        self._stage = _Stage.BODY
        if self._body is None:
            events.append(END)
            self._stage = _Stage.WAITING
        return rest

    def _read_body(self, data: bytes, events: list[HeadT | Data | End]) -> bytes | None:
        rest = self._body.take(data, events.append) if self._body else None
        if rest is not None:
            self._finish()
        return rest

    def _finish(self) -> None:
        self._body = None
        self._stage = _Stage.WAITING

    def _close(self) -> list[HeadT | Data | End]:
        if self._body is not None:
            end = self._body.close()
            self._finish()
            return [end]
        if self._stage is _Stage.HEAD:
            self._close_in_head()
        return []

    def _keep(self, data: bytes) -> None:
        """Keep bytes that came in while the reader waits."""
        self._keep_rest(data)
        if len(self._pending) > self._limits.pending:
            raise WireError("Too much was sent ahead of the answer.", "Wait for the answer first.")

    def _keep_rest(self, data: bytes) -> None:
        # A single read is never refused for its size: it was here before reading could be stopped.
        self._pending += data

    def _fail(self, error: WireError) -> WireError:
        # Every fault of an upstream is answered with 502.
        self._fault = error if self._of_request else WireError(error.message, error.hint, status=502)
        return self._fault

    def _check_fault(self) -> None:
        if self._fault is not None:
            raise WireError(self._fault.message, self._fault.hint, status=self._fault.status)


class RequestReader(_Reader[RequestHead]):
    """Reads what a client sends. The first request is read at once, each later one when asked for."""

    def __init__(
        self, limits: MessageLimits = DEFAULT_LIMITS, fits: Callable[[RequestHead], bool] | None = None
    ) -> None:
        super().__init__(limits, _Stage.HEAD, of_request=True)
        self._before: RequestHead | None = None
        self._fits = fits
        self._misfit = b""

    @property
    def idle(self) -> bool:
        """No byte of a request has arrived: closing now loses no request."""
        return self._stage is _Stage.HEAD and not self._intake.started

    def next_message(self) -> list[RequestHead | Data | End]:
        """Begin the next request, once the exchange before it is over; return what is known of it.

        Raises WireError like `feed`, UsageError while a request is being read or after one that
        closes the connection.
        """
        self._check_fault()
        if self._stage is not _Stage.WAITING or not self._keep_alive:
            raise UsageError("The connection cannot take another request now.")
        self._stage = _Stage.HEAD
        if not self._pending and not self._ended:
            return []
        ahead = bytes(self._pending)
        self._pending.clear()
        try:
            events = self._advance(ahead)
            return events + self._close() if self._ended else events
        except WireError as error:
            raise self._fail(error) from None

    def take_back(self) -> bytes:
        """Return the request that did not fit, and what came in behind it; empty where each one did."""
        if self._misfit:
            self._stage = _Stage.DETACHED
        return self._misfit + bytes(self._pending) if self._misfit else b""

    def _begin(self, block: bytes, events: list[RequestHead | Data | End]) -> Framing:
        self._before = head = parse_request_head(block, self._limits, self._before)
        self._keep_alive = head.keep_alive
        self._may_detach = head.method == "CONNECT" or bool(head.upgrade)
        if self._fits is not None and not self._fits(head):
            self._misfit = block
            return NO_BODY
        events.append(head)
        return head.framing

    def _close_in_head(self) -> None:
        if self._intake.started:
            raise WireError("The connection ends inside a request head.")


class ResponseReader(_Reader[ResponseHead | Informational]):
    """Reads what a server sends, one response for every `expect`."""

    def __init__(self, limits: MessageLimits = DEFAULT_LIMITS) -> None:
        super().__init__(limits, _Stage.WAITING, of_request=False)
        self._method = ""
        self._asked: tuple[str, ...] = ()
        self._interim = 0
        self._surplus = False
        self._before: ResponseHead | None = None

    @property
    def started(self) -> bool:
        """Something of the response has arrived, so the server did see the request."""
        return self._stage is not _Stage.HEAD or self._intake.started or self._interim > 0

    @property
    def reusable(self) -> bool:
        """The connection may carry another exchange."""
        fit = self._keep_alive and not self._may_detach and not self._surplus and not self._ended
        return fit and self._fault is None and self._stage is _Stage.WAITING

    def expect(self, method: str, *, upgrade: tuple[str, ...] = ()) -> None:
        """Read the response to a request with `method`, which asked to upgrade to `upgrade`.

        Raises WireError where the server has sent bytes nobody asked for, UsageError where the
        connection cannot carry another exchange for any other reason.
        """
        self._check_fault()
        if self._surplus:
            raise self._fail(WireError("The server sends bytes that belong to no response."))
        if not self.reusable:
            raise UsageError("The connection cannot carry another exchange.")
        self._method, self._asked, self._interim = method, upgrade, 0
        self._stage = _Stage.HEAD

    def _begin(self, block: bytes, events: list[ResponseHead | Informational | Data | End]) -> Framing | None:
        head = parse_response_head(block, self._limits, self._method, self._asked, self._before)
        events.append(head)
        if isinstance(head, Informational):
            self._interim += 1
            if self._interim > self._limits.informational:
                raise WireError("There are too many interim responses.")
            return None
        self._before = head
        self._keep_alive = head.keep_alive
        self._may_detach = head.status == 101 or (self._method == "CONNECT" and head.status < 300)
        return head.framing

    def _close_in_head(self) -> None:
        raise WireError("The connection ends before the response does.")

    def _keep(self, data: bytes) -> None:
        if self._may_detach:
            super()._keep(data)
        else:
            self._keep_rest(data)

    def _keep_rest(self, data: bytes) -> None:
        if self._may_detach:
            super()._keep_rest(data)
        elif data:
            # Never kept: they would become the answer to somebody else's request.
            self._surplus = True


# A body reader is given bytes until it says that the message is complete; then it returns the rest.
# Bytes pass through without being copied wherever a read holds nothing but body.
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


# A chunk is a size of at most 16 hex digits, maybe an extension, CR LF, the data, CR LF. Any other
# spelling is refused: white space around the size, a sign, a prefix, a LF alone. Extensions are dropped,
# since the receiver must not act on bytes that we did not read. Each is bounded, and all of them by the
# data they come with, so that they cannot be sent for their own sake.
#
# The line end behind a chunk is read together with the size line that follows it: one pattern matches
# a complete line, one a line that may still become complete. Bytes that match neither are refused, so the
# verdict does not depend on how they were cut.
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
