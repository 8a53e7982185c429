"""The upstream's side of HTTP/2: one connection, the exchanges of one client connection on it."""

from __future__ import annotations

from collections import deque

from h2 import events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from egress.errors import WireError
from egress.http1 import CHUNKED, NO_BODY, Body, Framing
from egress.http1.fields import read_length
from egress.http1.heads import has_no_body
from egress.relay.exchange_stream import ExchangeStream
from egress.relay.http2_frame_filter import GoAway
from egress.relay.http2_limits import (
    CONNECTION_WINDOW_BYTES,
    MAX_STREAMS,
    FloodError,
    PacedHttp2,
    StreamWindow,
    encode_headers,
    read_events,
    start_connection,
)
from egress.relay.http2_send_queue import Http2SendQueue
from egress.relay.limits import MIN_WINDOW_BYTES
from egress.relay.relay_port import RelayPort
from egress.shares.pool import Resource
from egress.types import Head, Headers


class Http2Upstream(PacedHttp2):
    """A connection to the upstream that speaks HTTP/2."""

    def __init__(self, relay: RelayPort, wire: int) -> None:
        self._relay = relay
        self._wire = wire
        super().__init__(client_side=True)
        self._halves: dict[int, Http2UpstreamHalf] = {}
        self._waiting: deque[ExchangeStream] = deque()
        self.outbox = Http2SendQueue(self._h2, self._on_congestion, relay.service.buffer_bytes)
        self._is_leaving = False
        self.idle_since = relay.service.monotonic()
        self._window = relay.account.take_part(Resource.WINDOWS, CONNECTION_WINDOW_BYTES, MIN_WINDOW_BYTES)
        start_connection(self._h2, self._window)

    @property
    def wire(self) -> int:
        return self._wire

    @property
    def is_usable(self) -> bool:
        """The connection can take another exchange."""
        return not (self._is_leaving or self._is_closed)

    def carry(self, stream: ExchangeStream) -> None:
        """Take on this exchange, as soon as the upstream allows one more."""
        self._waiting.append(stream)
        self._begin_waiting()

    # The connection

    def received(self, data: bytes) -> None:
        """Take bytes of the upstream."""
        try:
            pieces = list(self._goodbyes.feed(data))
        except ProtocolError:
            self._lost("upstream.malformed")
            return
        for piece in pieces:
            if self._is_closed:
                return
            if isinstance(piece, GoAway):
                self._leave(piece.last_stream)
                continue
            try:
                found = read_events(self._h2, self._bounds, piece)
            except ProtocolError:
                self._lost("upstream.malformed")
                return
            for event in found:
                self._take(event)
        self._begin_waiting()
        if self._is_leaving and not self._halves:
            self._lost("upstream.closed")

    def ended(self) -> None:
        """The upstream has closed its side."""
        self._lost("upstream.closed", is_stale=True)

    def pump(self) -> None:
        """Write what has come together."""
        if self._is_closed:
            return
        self.outbox.flush(self._relay.service.turn)
        data = self._h2.data_to_send()
        self._relay.write(self._wire, data)
        try:
            self._bounds.wrote(len(data), blocked=self.outbox.is_blocked)
        except FloodError:
            self._lost("upstream.malformed")

    def blocked(self, *, blocked: bool) -> None:
        """The upstream does not take what was written, or does again."""
        self.outbox.is_blocked = blocked

    def tick(self, now: float) -> None:
        """Close it when nobody has used it for a while."""
        self._bounds.new_second()
        if self._waiting:
            self._waiting = deque([stream for stream in self._waiting if not stream.is_over])
        if self._halves or self._waiting:
            self.idle_since = now
        elif now - self.idle_since > self._relay.limits.upstream_idle:
            self._lost("upstream.closed")

    # What halves call

    def send_head(self, stream: int, headers: Headers, *, ends: bool) -> None:
        """Send a head. Raises `WireError` where the library will not."""
        try:
            self._h2.send_headers(stream, encode_headers(headers), end_stream=ends)
        except ProtocolError:
            # Not to be taken for a fault of whoever is being read just now.
            raise WireError("The head to be sent is not one of HTTP/2.", status=500) from None

    def forget(self, stream: int) -> None:
        """This half has had its end."""
        self._halves.pop(stream, None)

    def reset(self, stream: int) -> None:
        """Reset a stream whose response is no longer needed."""
        self.outbox.drop(stream)
        self.forget(stream)
        if self._is_closed:
            return
        try:
            self._h2.reset_stream(stream, ErrorCodes.CANCEL)
        except ProtocolError:
            # The stream has ended already, so no reset is needed.
            return

    # Inside

    def _begin_waiting(self) -> None:
        most = min(MAX_STREAMS, self._h2.remote_settings.max_concurrent_streams)
        while self._waiting and self.is_usable and len(self._halves) < most:
            stream = self._waiting.popleft()
            if stream.is_over:
                continue
            number = self._h2.get_next_available_stream_id()
            half = self._halves[number] = Http2UpstreamHalf(self, number, stream)
            stream.connected(half)

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.ConnectionTerminated):
            self._lost("upstream.closed")
            return
        half = self._halves.get(getattr(event, "stream_id", None) or 0)
        if half is None:
            if isinstance(event, events.DataReceived):
                self.acknowledge(event.stream_id, event.flow_controlled_length or 0)
            return
        if isinstance(event, events.DataReceived):
            half.received(event.data or b"", event.flow_controlled_length or 0)
        elif isinstance(event, events.ResponseReceived):
            half.response(_text(event.headers), ends=event.stream_ended is not None)
        elif isinstance(event, events.InformationalResponseReceived):
            half.interim(_text(event.headers))
        elif isinstance(event, events.TrailersReceived):
            half.trailers = tuple(_text(event.headers))
        elif isinstance(event, events.StreamEnded):
            half.ended()
        elif isinstance(event, events.StreamReset):
            self.outbox.drop(half.number)
            self.forget(half.number)
            half.acknowledge()
            half.was_lost("upstream.closed", unseen=event.error_code == ErrorCodes.REFUSED_STREAM)

    def _leave(self, last: int) -> None:
        """The upstream takes no more exchanges, and has not seen those above `last`."""
        self._is_leaving = True
        waiting, self._waiting = self._waiting, deque()
        unseen = [half for number, half in self._halves.items() if number > last]
        for half in unseen:
            self.forget(half.number)
            half.was_lost("upstream.closed", unseen=True)
        for stream in waiting:
            if not stream.is_over:
                self._relay.upstreams.acquire(stream)

    def _on_congestion(self, stream: int, *, congested: bool) -> None:
        half = self._halves.get(stream)
        if half is not None:
            half.stream.upstream_congested(congested=congested)

    def _lost(self, code: str, *, is_stale: bool = False) -> None:
        """The connection is over; `is_stale` says that the upstream may just have tired of keeping it."""
        if self._is_closed:
            return
        self._is_closed = True
        self._relay.account.give(Resource.WINDOWS, self._window)
        halves, self._halves = list(self._halves.values()), {}
        waiting, self._waiting = self._waiting, deque()
        self._relay.upstreams.drop(self)
        for half in halves:
            half.was_lost(code, unseen=is_stale and half.number > 1)
        for stream in waiting:
            stream.abort(code)


class Http2UpstreamHalf(StreamWindow):
    """The upstream half of a request, and of its response."""

    def __init__(self, upstream: Http2Upstream, number: int, stream: ExchangeStream) -> None:
        super().__init__(upstream, number)
        self._upstream = upstream
        self.stream = stream
        self.trailers: Headers = ()
        self._is_sent = False
        self._method = ""
        self._came = 0
        self._stated = -1

    @property
    def wire(self) -> int:
        return self._upstream.wire

    # From the connection

    def interim(self, fields: list[tuple[str, str]]) -> None:
        status, headers = _status_of(fields)
        self.stream.interim(status, "", headers)

    def response(self, fields: list[tuple[str, str]], *, ends: bool) -> None:
        status, headers = _status_of(fields)
        lengths = [value for name, value in headers if name == "content-length"]
        try:
            framing = Framing.sized(read_length(lengths[0])) if lengths else CHUNKED
        except WireError:
            self.stream.abort("upstream.malformed")
            return
        if has_no_body(self._method, status):
            framing = NO_BODY
        elif framing.body is Body.LENGTH:
            self._stated = framing.length
        if ends and self._stated > 0:
            self.stream.abort("upstream.malformed")
            return
        self.stream.response(status, "", headers, NO_BODY if ends else framing)

    def received(self, data: bytes, length: int) -> None:
        self._unacknowledged += length
        self._came += len(data)
        if data:
            self.stream.data(data)
        if not self._held or self.stream.is_over:
            self.acknowledge()

    def ended(self) -> None:
        if self._stated not in (-1, self._came):
            # The library does not see to it where there is no DATA, or trailers end the stream.
            self.stream.abort("upstream.malformed")
        else:
            self.stream.response_end(self.trailers)

    def was_lost(self, code: str, *, unseen: bool) -> None:
        """The stream has ended early; `unseen` says that the upstream has not looked at the request."""
        if unseen and self.stream.may_be_sent_again:
            self.stream.upstream_lost()
        elif not self.stream.has_whole_response:
            self.stream.abort(code)

    # From the stream

    def send(self, head: Head, framing: Framing, *, expects: bool) -> None:
        self._method = head.method
        self._is_sent = framing in (NO_BODY, Framing.sized(0))
        self._upstream.send_head(self.number, _fields_of(head), ends=self._is_sent)
        if expects:
            # No need to ask: a stream that is refused can be ended on its own.
            self.stream.interim(100, "", ())

    def data(self, data: bytes) -> None:
        self._upstream.outbox.put(self.number, data)

    def end(self) -> None:
        if not self._is_sent:
            self._is_sent = True
            self._upstream.outbox.end(self.number)

    def release(self) -> None:
        self.acknowledge()
        if self._is_sent and self.number not in self._upstream.outbox:
            self._upstream.forget(self.number)
        else:
            self._upstream.reset(self.number)

    def abandon(self) -> None:
        self.acknowledge()
        self._upstream.reset(self.number)


def _fields_of(head: Head) -> Headers:
    """The head in HTTP/2 spelling. Host is the destination, and becomes `:authority`."""
    fields = dict(head.headers)
    rest = tuple([field for field in head.headers if field[0] != "host"])
    if fields.get("content-type", "").startswith("application/grpc"):
        # TE is hop-by-hop and was stripped; gRPC servers insist on it.
        rest = (*rest, ("te", "trailers"))
    return (
        (":method", head.method),
        (":scheme", head.scheme),
        (":authority", fields["host"]),
        (":path", head.target),
        *rest,
    )


def _status_of(fields: list[tuple[str, str]]) -> tuple[int, Headers]:
    status = next((value for name, value in fields if name == ":status"), "")
    # The library has seen to it that there is one; what it holds is still the upstream's choice.
    number = int(status) if len(status) == 3 and status.isascii() and status.isdecimal() else 0
    return number, tuple([field for field in fields if field[0][:1] != ":"])


def _text(headers: object) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in headers]  # type: ignore[attr-defined]
