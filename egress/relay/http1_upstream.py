"""The upstream's side of HTTP/1.1: one connection, one exchange at a time."""

from __future__ import annotations

from typing import Final

from egress.errors import WireError
from egress.http1 import (
    Data,
    End,
    Framing,
    Informational,
    RequestWriter,
    ResponseEvent,
    ResponseHead,
    ResponseReader,
)
from egress.relay.exchange_stream import ExchangeStream
from egress.relay.relay_port import RelayPort
from egress.relay.websocket import UNCUT_BYTES, PacedHttp1
from egress.types import Head

_MAX_BYTES_PER_TURN: Final = 8 * 1024
"""Bytes of a packed answer that are handed on in one turn: they may unpack to a thousand times as much, and
between two turns the client can say that it has enough."""


class Http1Upstream(PacedHttp1):
    """A connection to the upstream, and the half of the exchange that is under way on it."""

    def __init__(self, relay: RelayPort, wire: int) -> None:
        self._relay = relay
        self._wire = wire
        self._reader = ResponseReader()
        self._writer = RequestWriter()
        self._stream: ExchangeStream | None = None
        self._held = False
        self._blocked = False
        self._used = False
        self._is_packed = False
        """What comes is coded, and may be decoded on its way."""
        # Until its head is there, an answer may be one of those.
        self.slice = _MAX_BYTES_PER_TURN
        self.idle_since = 0.0

    @property
    def wire(self) -> int:
        return self._wire

    @property
    def reads(self) -> bool:
        """Whether more bytes of the upstream may be read now."""
        return not self._held

    @property
    def is_free(self) -> bool:
        """Another exchange may use it."""
        done = self._stream is None and self._reader.reusable and not self._writer.open
        # One that has not taken the last request yet would let the next one pile up unseen.
        return done and not self._blocked

    def slices(self, data: bytes) -> list[bytes]:
        if self.slice != _MAX_BYTES_PER_TURN:
            return super().slices(data)
        return [data[at : at + _MAX_BYTES_PER_TURN] for at in range(0, len(data), _MAX_BYTES_PER_TURN)]

    @property
    def is_busy(self) -> bool:
        return self._is_packed or super().is_busy

    @property
    def is_full(self) -> bool:
        """The client has enough of what is unpacked, or as of any connection."""
        return (self._is_packed and self._held) or super().is_full

    def new_second(self) -> None:
        """Begin to count anew."""
        self._pace.new_second()

    def carry(self, stream: ExchangeStream) -> None:
        """Take on this exchange."""
        self._stream = stream
        stream.connected(self)

    # The connection

    def received(self, data: bytes) -> None:
        """Take bytes of the upstream."""
        if self._is_raw:
            self._pace.passed()
            if self._stream is not None:
                self._stream.data(data)
            return
        if self._stream is None:
            # Bytes nobody asked for must not become the answer to the next request.
            self._relay.upstreams.drop(self)
            return
        try:
            events = self._reader.feed(data)
        except WireError:
            self._lost("upstream.malformed")
            return
        self._take(events)

    def ended(self, *, clean: bool = True) -> None:
        """The upstream has closed its side; where that is not `clean`, a body that runs to the end is cut."""
        stream = self._stream
        if stream is None:
            self._relay.upstreams.drop(self)
            return
        if self._is_raw:
            self._stream = None
            stream.frames_ended()
            self._relay.upstreams.drop(self)
            return
        if self._used and not self._reader.started and stream.may_be_sent_again:
            self._stream = None
            self._relay.upstreams.drop(self)
            stream.upstream_lost()
            return
        try:
            events = self._reader.eof()
        except WireError:
            self._lost("upstream.closed")
            return
        if events and not clean:
            # Only a body without a length of its own is completed by the end, and this one may be a cut.
            self._lost("upstream.closed")
            return
        self._take(events)
        self._relay.upstreams.drop(self)

    def blocked(self, *, blocked: bool) -> None:
        """The upstream does not take what was written, or does again."""
        self._blocked = blocked
        if self._stream is not None:
            self._stream.upstream_congested(congested=blocked)

    # The half that the stream talks to

    def send(self, head: Head, framing: Framing, *, expects: bool) -> None:
        upgrade = ("websocket",) if head.websocket else ()
        self._reader.expect(head.method, upgrade=upgrade)
        data = self._writer.head(
            head.method, head.target, head.headers, framing, upgrade=upgrade, expect_continue=expects
        )
        self._relay.write(self._wire, data)

    def data(self, data: bytes) -> None:
        self._relay.write(self._wire, data if self._is_raw else self._writer.data(data))

    def end(self) -> None:
        if self._writer.open:
            self._relay.write(self._wire, self._writer.end())

    def release(self) -> None:
        self._stream = None
        self._used = True
        self._is_packed = False
        self.slice = _MAX_BYTES_PER_TURN
        # While nobody uses it, its end has to be noticed.
        self._held = False
        if self.is_free:
            self.idle_since = self._relay.service.monotonic()
            self._relay.upstreams.freed(self)
        else:
            self._relay.upstreams.drop(self)

    def abandon(self) -> None:
        self._stream = None
        self._relay.upstreams.drop(self)

    def hold(self, *, held: bool) -> None:
        self._held = held

    # Inside

    def _take(self, events: list[ResponseEvent]) -> None:
        if len(events) == 3 and self._stream is not None:
            head, body, end = events
            if type(head) is ResponseHead and type(body) is Data and type(end) is End and not end.trailers:
                # A switch has no body.
                self._stream.complete_response(
                    head.status, head.reason, head.headers, head.framing, body.data
                )
                return
        for event in events:
            stream = self._stream
            if stream is None:
                return
            if isinstance(event, Data):
                stream.data(event.data)
            elif isinstance(event, ResponseHead):
                self._is_packed = any(name == "content-encoding" for name, _ in event.headers)
                self.slice = _MAX_BYTES_PER_TURN if self._is_packed else UNCUT_BYTES
                if event.status == 101:
                    # The end of this message, which follows in the list, is the beginning of frames.
                    self._switch(stream, event)
                    return
                stream.response(event.status, event.reason, event.headers, event.framing)
            elif isinstance(event, Informational):
                stream.interim(event.status, event.reason, event.headers)
            elif isinstance(event, End):
                stream.response_end(event.trailers)

    def _switch(self, stream: ExchangeStream, head: ResponseHead) -> None:
        self.end()
        self._begin_frames()
        stream.response(head.status, head.reason, head.headers, head.framing)
        ahead = self._reader.detach()
        if self._stream is not None:
            self._relay.received_ahead(self._wire, ahead)

    def _lost(self, code: str) -> None:
        stream, self._stream = self._stream, None
        self._relay.upstreams.drop(self)
        if stream is not None:
            stream.abort(code)
