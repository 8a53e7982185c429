"""The upstream connections of one client connection: opened when needed, kept while they are fit.

All of them lead to the one destination, and none is ever shared with another client connection: what
one sandbox was answered can not reach another. There are only so many of them, for one client connection
and for its sandbox: an exchange that finds none left waits for a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from egress.exchange import NeedSecrets
from egress.relay.exchange_stream import ExchangeStream
from egress.relay.http1_upstream import Http1Upstream
from egress.relay.http2_upstream import Http2Upstream
from egress.relay.ports import Fetch, Open
from egress.relay.relay_port import RelayPort, UpstreamConnection
from egress.rules.decide.policy import Policy
from egress.types import Secret

HTTP1_ALPN: Final = ("http/1.1",)
HTTP2_ALPN: Final = ("h2", "http/1.1")


class Upstreams:
    """Who carries which exchange, and which exchanges wait."""

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
        """It, and those that only finish what they carry."""
        self._opening: dict[int, ExchangeStream] = {}
        self._probe = 0
        """The wire that will tell whether the upstream speaks HTTP/2; 0 when none is under way."""
        self._waiting: list[ExchangeStream] = []
        self._queue: deque[tuple[ExchangeStream, float]] = deque()
        """Exchanges that wait because there may be no more connections, and since when."""
        self._fetching: dict[int, ExchangeStream] = {}

    def get(self, wire: int) -> Http1Upstream | Http2Upstream | None:
        """The connection behind a wire, if it is open."""
        return self._by_wire.get(wire)

    @property
    def wires(self) -> tuple[int, ...]:
        """Every wire that is open, or being opened."""
        return (*self._by_wire, *self._opening)

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
                # It got as far as this connection did.
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

    def pump(self) -> bool:
        """Let the connections that are shared write what has come together; whether anything happened."""
        if self._queue:
            self._advance()
        elif not self._multiplexed:
            return False
        for connection in tuple(self._multiplexed):
            connection.pump()
        return True

    def tick(self, now: float) -> None:
        """Close what nobody has used for a while."""
        for connection in list(self._free):
            if now - connection.idle_since > self._relay.limits.upstream_idle:
                self.drop(connection)
        for shared in tuple(self._multiplexed):
            shared.tick(now)
        for each in self._by_wire.values():
            if isinstance(each, Http1Upstream):
                each.new_second()
        # The oldest one first: those behind it have not waited longer.
        while self._queue and now - self._queue[0][1] > self._relay.limits.upstream_wait:
            self._queue.popleft()[0].abort("limit.connections", retry_after=1)

    def _advance(self) -> None:
        """Let those that wait have what has become free; in their order."""
        while self._queue and (self._free or self._may_share() or self._relay.account.may_connect):
            stream, since = self._queue.popleft()
            self.acquire(stream)
            if self._queue and self._queue[-1][0] is stream:
                # There was none after all: it keeps its place.
                self._queue.pop()
                self._queue.appendleft((stream, since))
                return

    def _may_share(self) -> bool:
        return bool(self._probe) or (self._shared is not None and self._shared.is_usable)

    def _cancel_opening(self, stream: ExchangeStream) -> None:
        """Nobody needs the connection that is being opened for this exchange, unless another one waits."""
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
        """Order a connection for this exchange, if there may be one more."""
        account = self._relay.account
        if self._free and not account.may_connect:
            # It needs a new one, and this one is not in use.
            self.drop(self._free[0])
        if not account.connect():
            return False
        alpn = HTTP2_ALPN if self._http2 and not stream.asks_to_switch else HTTP1_ALPN
        self._last_wire += 1
        wire = self._last_wire
        self._opening[wire] = stream
        if alpn == HTTP2_ALPN:
            self._probe = wire
        self._relay.order(Open(wire, alpn))
        return True
