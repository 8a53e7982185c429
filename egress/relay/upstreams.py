"""The upstream connections of a client connection: opened when needed, kept while they are fit.

Each leads to the same destination, and none is shared with another client connection: a response for one
sandbox cannot reach another. Their number is bounded for the client connection and for its sandbox: an
exchange that finds no connection waits for a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from egress.errors import WireError
from egress.exchange import HandlerCall, HandlerVerdict, NeedSecrets
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
from egress.relay.http1_pacing import PacedHttp1
from egress.relay.http2_upstream import Http2Upstream
from egress.relay.limits import MAX_WIRES
from egress.relay.ports import Call, Fetch, Open, WireEnd
from egress.relay.relay_port import RelayPort, UpstreamConnection
from egress.rules.decide.policy import Policy
from egress.shares.pool import Resource
from egress.types import Head, Secret

HTTP1_ALPN: Final = ("http/1.1",)
HTTP2_ALPN: Final = ("h2", "http/1.1")


class Upstreams:
    """The table of upstream connections, and the queue of waiting exchanges."""

    def __init__(self, relay: RelayPort, *, http2: bool) -> None:
        """`http2`: try to speak HTTP/2 to the upstream, as the client does to us."""
        self._relay = relay
        self._http2 = http2
        self._last_wire = 0
        self._last_ticket = 0
        self._by_wire: dict[int, Http1Upstream | Http2Upstream] = {}
        self._free: list[Http1Upstream] = []
        self._shared: Http2Upstream | None = None
        """The connection that takes new exchanges."""
        self._multiplexed: list[Http2Upstream] = []
        """The shared connection, and older ones that only finish their exchanges."""
        self._opening: dict[int, ExchangeStream] = {}
        self._probe = 0
        """The wire that will tell whether the upstream speaks HTTP/2; 0 when none is under way."""
        self._waiting: list[ExchangeStream] = []
        self._queue: deque[tuple[ExchangeStream, float]] = deque()
        """Exchanges that wait because there may be no more connections, and since when."""
        self._fetching: dict[int, ExchangeStream] = {}
        self._calling: dict[int, ExchangeStream] = {}

    def get(self, wire: int) -> Http1Upstream | Http2Upstream | None:
        """The connection behind a wire, if it is open."""
        return self._by_wire.get(wire)

    @property
    def halves(self) -> tuple[Http1Upstream | Http2Upstream, ...]:
        """Every connection that is open."""
        return tuple(self._by_wire.values())

    @property
    def wires(self) -> tuple[int, ...]:
        """Every wire that is open, or being opened."""
        return (*self._by_wire, *self._opening)

    @property
    def is_resting(self) -> bool:
        """Nothing waits, and no connection has to be looked at every second, as those of HTTP/2 have."""
        return not (self._queue or self._multiplexed)

    # Exchanges

    def acquire(self, stream: ExchangeStream) -> None:
        """Find a connection for this exchange, now or later."""
        if self._http2 and not stream.asks_to_switch:
            if self._shared is not None and self._shared.is_usable:
                self._shared.carry(stream)
                return
            if self._probe:
                self._waiting.append(stream)
                return
        if self._free and not stream.is_retried:
            self._free.pop().carry(stream)
            return
        if not self._open(stream):
            self._queue.append((stream, self._relay.service.monotonic()))

    def record_written(self, stream: ExchangeStream) -> None:
        """This exchange is over: it waits for nothing any more."""
        if self._waiting and stream in self._waiting:
            self._waiting.remove(stream)
        if self._queue:
            self._queue = deque([each for each in self._queue if each[0] is not stream])
        if self._opening:
            self._cancel_opening(stream)
        self._relay.record_written(stream)

    def go_on_later(self, stream: ExchangeStream) -> None:
        """Call `go_on` of this exchange in another turn."""
        self._relay.go_on_later(stream)

    def fetch(self, stream: ExchangeStream, policy: Policy, needed: NeedSecrets) -> None:
        """Ask for the values of secrets."""
        self._last_ticket += 1
        self._fetching[self._last_ticket] = stream
        self._relay.order(Fetch(self._last_ticket, policy, needed.names, needed.unscrubbed))

    def fetched(self, ticket: int, secrets: Mapping[str, Secret]) -> None:
        """Hand the values to the exchange that asked."""
        stream = self._fetching.pop(ticket, None)
        if stream is not None:
            stream.fetched(secrets)

    def call(self, stream: ExchangeStream, call: HandlerCall, body: bytes) -> None:
        """Call a handler."""
        self._last_ticket += 1
        self._calling[self._last_ticket] = stream
        self._relay.order(Call(self._last_ticket, call, body))

    def handled(self, ticket: int, verdict: HandlerVerdict) -> None:
        """Hand the verdict of a handler to the exchange that asked."""
        stream = self._calling.pop(ticket, None)
        if stream is not None:
            stream.handled(verdict)

    # Connections

    def opened(self, wire: int, alpn: str) -> None:
        """The connection stands, and speaks this protocol."""
        stream = self._opening.pop(wire, None)
        if stream is None:
            self._relay.close(wire)
            return
        if wire == self._probe:
            self._probe = 0
            self._http2 = alpn == "h2"
        connection = Http2Upstream(self._relay, wire) if alpn == "h2" else Http1Upstream(self._relay, wire)
        self._by_wire[wire] = connection
        if isinstance(connection, Http2Upstream):
            self._shared = connection
            self._multiplexed.append(connection)
        connection.carry(stream)
        waiting, self._waiting = self._waiting, []
        for other in waiting:
            self.acquire(other)

    def failed(self, wire: int, code: str) -> None:
        """The connection could not be made."""
        stream = self._opening.pop(wire, None)
        waiting: list[ExchangeStream] = []
        if wire == self._probe:
            self._probe = 0
            waiting, self._waiting = self._waiting, []
        for each in (stream, *waiting):
            if each is not None:
                # The record shows how far the connection got.
                each.timing.wire = wire
                each.abort(code)

    def freed(self, upstream: UpstreamConnection) -> None:
        """This connection can carry another exchange."""
        connection = self._by_wire.get(upstream.wire)
        if isinstance(connection, Http1Upstream) and not self._relay.is_draining:
            self._free.append(connection)
        else:
            self.drop(upstream)

    def drop(self, upstream: UpstreamConnection) -> None:
        """Close this connection."""
        connection = self._by_wire.pop(upstream.wire, None)
        if connection is None:
            return
        if isinstance(connection, Http1Upstream) and connection in self._free:
            self._free.remove(connection)
        if isinstance(connection, Http2Upstream):
            self._multiplexed.remove(connection)
            if connection is self._shared:
                self._shared = None
        self._relay.close(connection.wire)

    @property
    def wants_turn(self) -> bool:
        """More of the requests could be sent."""
        return any(connection.outbox.is_due for connection in self._multiplexed)

    def pump(self) -> bool:
        """Let shared connections write their pending bytes; return whether any could."""
        if self._queue:
            self._advance()
        elif not self._multiplexed:
            return False
        for connection in tuple(self._multiplexed):
            connection.pump()
        return True

    def tick(self, now: float) -> None:
        """Close idle connections, and end exchanges that waited too long."""
        for connection in list(self._free):
            if now - connection.idle_since > self._relay.limits.upstream_idle:
                self.drop(connection)
        for shared in tuple(self._multiplexed):
            shared.tick(now)
        # The queue is ordered by age, so the loop stops at the first exchange that may wait on.
        while self._queue and now - self._queue[0][1] > self._relay.limits.upstream_wait:
            self._queue.popleft()[0].abort("limit.connections", retry_after=1)

    def _advance(self) -> None:
        """Give free connections to waiting exchanges, in their order."""
        while self._queue and (self._free or self._may_share() or self._may_connect):
            stream, since = self._queue.popleft()
            self.acquire(stream)
            if self._queue and self._queue[-1][0] is stream:
                # No connection was left after all: the exchange keeps its place.
                self._queue.pop()
                self._queue.appendleft((stream, since))
                return

    @property
    def _may_connect(self) -> bool:
        account = self._relay.account
        return account.taken[Resource.UPSTREAMS] < MAX_WIRES and account.has(Resource.UPSTREAMS)

    def _may_share(self) -> bool:
        return bool(self._probe) or (self._shared is not None and self._shared.is_usable)

    def _cancel_opening(self, stream: ExchangeStream) -> None:
        """Cancel the connection being opened for this exchange, unless another exchange can use it."""
        wire = next((wire for wire, each in self._opening.items() if each is stream), 0)
        if not wire:
            return
        if wire == self._probe and self._waiting:
            self._opening[wire] = self._waiting.pop(0)
            return
        if wire == self._probe:
            self._probe = 0
        del self._opening[wire]
        self._relay.close(wire)

    def _open(self, stream: ExchangeStream) -> bool:
        """Order a connection for this exchange if the share of the sandbox allows it."""
        if self._free and not self._may_connect:
            # The exchange needs a new connection, so an unused one makes room.
            self.drop(self._free[0])
        if not self._may_connect or not self._relay.account.take(Resource.UPSTREAMS):
            return False
        alpn = HTTP2_ALPN if self._http2 and not stream.asks_to_switch else HTTP1_ALPN
        self._last_wire += 1
        wire = self._last_wire
        self._opening[wire] = stream
        if alpn == HTTP2_ALPN:
            self._probe = wire
        self._relay.order(Open(wire, alpn))
        return True


class Http1Upstream(PacedHttp1):
    """A connection of HTTP/1.1, and the upstream half of the exchange that runs on it."""

    def __init__(self, relay: RelayPort, wire: int) -> None:
        self._relay = relay
        self._wire = wire
        self._reader = ResponseReader()
        self._writer = RequestWriter()
        self._stream: ExchangeStream | None = None
        self._held = False
        self._blocked = False
        self._used = False
        self.idle_since = 0.0

    @property
    def wire(self) -> int:
        return self._wire

    @property
    def reads(self) -> bool:
        """More bytes of the upstream may be read now."""
        return not self._held

    @property
    def is_free(self) -> bool:
        """The connection can take another exchange."""
        done = self._stream is None and self._reader.reusable and not self._writer.open
        # A connection that has not taken the last request yet would let the next one pile up unseen.
        return done and not self._blocked

    def carry(self, stream: ExchangeStream) -> None:
        """Take on this exchange."""
        self._stream = stream
        stream.connected(self)

    # The connection

    def received(self, data: bytes) -> None:
        """Take bytes of the upstream."""
        if self._is_raw:
            if self._stream is not None:
                self._stream.data(data)
            return
        if self._stream is None:
            # Unrequested bytes must not become the response to the next request.
            self._relay.upstreams.drop(self)
            return
        try:
            events = self._reader.feed(data)
        except WireError:
            self._lost("upstream.malformed")
            return
        self._take(events)

    def ended(self, how: WireEnd = "clean") -> None:
        """Take the end of the connection."""
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
        # Only a body without a length is completed by the end, so no other body depends on how that came.
        if events and how != "clean":
            if how == "cut" or self._relay.limits.strict_tls_end:
                self._lost("upstream.closed")
                return
            stream.is_end_proven = False
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
        # An idle connection is read, so that its end is noticed.
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
                self._begin_message()
                if event.status == 101:
                    # The next event in the list is the end of this message, where the frames begin.
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
