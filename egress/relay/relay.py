"""HTTP between a client connection and its upstream connections: bytes and events in, orders out. Pure.

The owner of the connections calls one of the entries below and carries out the returned orders, in their
order; then it asks `reads` which wires may be read.

    received, ended     bytes of a wire; its end
    opened, failed      the outcome of an `Open`
    fetched             the outcome of a `Fetch`
    handled             the outcome of a `Call`
    blocked             a wire does not take what was written, or does again
    tick                a second has passed; to be left out, for a while, where the relay `is_resting`
    again               it is our turn again, which was asked for with `YieldTurn`
    recheck             the rules have changed
    drain, shut, gone   come to an end: gently, at once, because the client is lost

An entry that raises leaves the relay unfit: only `shut("internal")` may be called then. It closes all wires
and records every running exchange, once. After the client's wire is closed or handed back, every entry
returns no orders.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Literal

from egress.exchange import Destination, Exchange, HandlerVerdict, Request
from egress.http1 import Framing
from egress.relay.exchange_stream import ExchangeStream
from egress.relay.http1_downstream import Http1Downstream
from egress.relay.http2_downstream import Http2Downstream
from egress.relay.http2_limits import PacedHttp2
from egress.relay.http2_upstream import Http2Upstream
from egress.relay.limits import RelayLimits
from egress.relay.ports import (
    CLIENT_WIRE,
    Close,
    DownstreamHalf,
    ExchangeTiming,
    HandBack,
    Open,
    RelayEnvironment,
    RelayOrder,
    Reset,
    WireEnd,
    Write,
    YieldTurn,
)
from egress.relay.upstreams import Http1Upstream, Upstreams
from egress.rules.decide.policy import Policy
from egress.shares.pool import Resource, SharePool
from egress.types import Identity, Secret

ClientProtocol = Literal["http/1.1", "h2"]
ProtocolSide = Http1Downstream | Http2Downstream | Http1Upstream | Http2Upstream
DEFAULT_LIMITS = RelayLimits()

_MAX_JOINED_BYTES = 64 * 1024
"""Bytes up to which writes that follow each other become one; to join longer ones is not worth it."""


class WaitingInput:
    """Bytes that were read of a wire and wait for another turn."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        """Where those begin that wait; the others have been handed on."""
        self.end: WireEnd | None = None

    def add(self, data: bytes) -> None:
        """Let these wait behind the others."""
        self.data, self.at = self.data[self.at :] + data, 0

    def put_first(self, data: bytes) -> None:
        """Let these go before the others."""
        self.data, self.at = data + self.data[self.at :], 0


class Relay:
    """A client connection, its exchanges and its upstream connections."""

    def __init__(
        self,
        service: RelayEnvironment,
        identity: Identity,
        destination: Destination,
        *,
        protocol: ClientProtocol = "http/1.1",
        forward: bool = False,
        limits: RelayLimits = DEFAULT_LIMITS,
    ) -> None:
        """`forward`: each request names its destination, and one for another destination is handed back."""
        self.service = service
        self.identity = identity
        self.destination = destination
        self.limits = limits
        self.is_draining = False
        self.is_closed = False
        """The client connection is closed or handed back, or ordered to be."""
        self._orders: list[RelayOrder] = []
        self._open = {CLIENT_WIRE}
        self._live: set[ExchangeStream] = set()
        self._ahead: dict[int, WaitingInput] = {}
        """Input that waits for another turn, by wire."""
        self._behind: dict[ExchangeStream, None] = {}
        """Exchanges that have more to do with what has come."""
        self._is_due = False
        """Another turn has been asked for."""
        pool = SharePool() if limits.pool is None else limits.pool
        self.account = pool.account(identity.sandbox)
        self.upstreams = Upstreams(self, http2=protocol == "h2")
        self._client: Http1Downstream | Http2Downstream = (
            Http2Downstream(self) if protocol == "h2" else Http1Downstream(self, forward=forward)
        )

    # Entries, for the owner of the connections

    def start(self) -> list[RelayOrder]:
        """Begin: some protocols greet."""
        if isinstance(self._client, Http2Downstream):
            self._client.start()
        return self._taken()

    def received(self, wire: int, data: bytes) -> list[RelayOrder]:
        """Take bytes of a wire."""
        if self.is_closed:
            return []
        half = self._client if wire == CLIENT_WIRE else self.upstreams.get(wire)
        if half is not None:
            self._take(wire, half, data)
        elif wire in self._open:
            raise RuntimeError("read an upstream before its connection was reported as open")
        return self._taken()

    def ended(self, wire: int, how: WireEnd = "clean") -> list[RelayOrder]:
        """Take the end of a wire."""
        if self.is_closed:
            return []
        if wire in self._ahead:
            self._ahead[wire].end = how
        else:
            self._ended(wire, how)
        return self._taken()

    def again(self) -> list[RelayOrder]:
        """Go on with input that waits for its turn."""
        if self.is_closed:
            return []
        self._is_due = False
        if isinstance(self._client, Http1Downstream):
            # However short a turn is, one request begins in it: else none would on a machine that is slow.
            self._client.begin_next()
        # What is to be sent goes first: it makes room for what comes.
        self._pump()
        for stream in list(self._behind):
            # The end of one exchange may be that of others.
            if stream not in self._behind:
                continue
            del self._behind[stream]
            stream.go_on()
            if self.service.turn.is_over:
                return self._taken()
        for wire, ahead in list(self._ahead.items()):
            self._advance(wire, ahead)
            if self.service.turn.is_over:
                break
        return self._taken()

    def opened(self, wire: int, alpn: str = "") -> list[RelayOrder]:
        """Take a new upstream connection."""
        if self.is_closed:
            return []
        if wire in self._open:
            self.upstreams.opened(wire, alpn)
        else:
            # The order was withdrawn while the connection was being made.
            self._orders.append(Close(wire))
        return self._taken()

    def failed(self, wire: int, code: str) -> list[RelayOrder]:
        """Take the failure of an upstream connection."""
        if self.is_closed:
            return []
        if wire in self._open:
            self._open.discard(wire)
            self.account.give(Resource.UPSTREAMS)
        self.upstreams.failed(wire, code)
        return self._taken()

    def fetched(self, ticket: int, secrets: Mapping[str, Secret]) -> list[RelayOrder]:
        """Take the values that could be resolved."""
        if self.is_closed:
            return []
        self.upstreams.fetched(ticket, secrets)
        return self._taken()

    def handled(self, ticket: int, verdict: HandlerVerdict) -> list[RelayOrder]:
        """Take the verdict of a handler."""
        if self.is_closed:
            return []
        self.upstreams.handled(ticket, verdict)
        return self._taken()

    def blocked(self, wire: int, *, blocked: bool) -> list[RelayOrder]:
        """Note that a wire stops taking written bytes, or takes them again."""
        if self.is_closed:
            return []
        if wire == CLIENT_WIRE:
            self._client.blocked(blocked=blocked)
        elif (upstream := self.upstreams.get(wire)) is not None:
            upstream.blocked(blocked=blocked)
        return self._taken()

    def tick(self) -> list[RelayOrder]:
        """Check the time-outs; called about once a second."""
        if self.is_closed:
            return []
        now = self.service.monotonic()
        for stream in list(self._live):
            stream.tick(now)
        self._client.tick(now)
        self.upstreams.tick(now)
        return self._taken()

    def recheck(self, policy: Policy, now: int) -> list[RelayOrder]:
        """End every exchange that this policy would not let begin."""
        if self.is_closed:
            return []
        for stream in list(self._live):
            if stream.would_be_denied(policy, now):
                stream.abort("access.withdrawn")
        return self._taken()

    def drain(self) -> list[RelayOrder]:
        """Finish the running exchanges, take no more, then close."""
        if self.is_closed:
            return []
        self.is_draining = True
        self._client.drain()
        return self._taken()

    def retire(self) -> list[RelayOrder]:
        """Close with the next response."""
        if not self.is_closed:
            self._client.retire()
        return self._taken()

    def gone(self) -> list[RelayOrder]:
        """Take the loss of the client connection."""
        self.close(CLIENT_WIRE)
        return self._taken()

    def shut(self, code: str) -> list[RelayOrder]:
        """End all exchanges now; each gets its record, even if other steps fail."""
        self.is_draining = True
        with contextlib.suppress(Exception):
            self._client.drain()
        for stream in list(self._live):
            with contextlib.suppress(Exception):
                self._shut(stream, code)
        with contextlib.suppress(Exception):
            self._client.pump()
        self.close(CLIENT_WIRE)
        orders, self._orders = self._orders, []
        return orders

    def reads(self, wire: int) -> bool:
        """Tell whether this wire may be read now."""
        if self._ahead and wire in self._ahead:
            return False
        if wire == CLIENT_WIRE:
            return self._client.reads
        upstream = self.upstreams.get(wire)
        return upstream is None or upstream.reads

    @property
    def is_resting(self) -> bool:
        """No exchange is under way, nothing waits, and only the long times of idle connections run."""
        return (
            not (self._live or self._ahead or self._behind)
            and self._client.is_resting
            and self.upstreams.is_resting
        )

    def dissolve(self) -> None:
        """Let go of all parts, behind the end: they point at each other, and nobody may use them any more."""
        halves = (self._client, *self.upstreams.halves)
        for part in (*halves, *(half.h2 for half in halves if isinstance(half, PacedHttp2)), self):
            vars(part).clear()

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the secrets that exchanges under way were sent with."""
        return frozenset(name for stream in self._live for name in stream.secrets)

    # Calls of the halves

    def order(self, order: RelayOrder) -> None:
        """Add an order."""
        self._orders.append(order)
        if type(order) is Open:
            self._open.add(order.wire)

    def write(self, wire: int, data: bytes) -> None:
        """Send bytes; consecutive writes to the same wire are joined."""
        if wire not in self._open or not data:
            return
        orders = self._orders
        if orders:
            last = orders[-1]
            if type(last) is Write and last.wire == wire and len(last.data) + len(data) <= _MAX_JOINED_BYTES:
                orders[-1] = Write(wire, last.data + data)
                return
        orders.append(Write(wire, data))

    def close(self, wire: int) -> None:
        """Close a wire; closing the client's ends all exchanges and upstream connections."""
        self._end(wire, Close(wire))

    def reset(self, wire: int) -> None:
        """Close a wire in a way that the peer notices."""
        self._end(wire, Reset(wire))

    def hand_back(self, request: bytes) -> None:
        """Hand the client's connection back, between two exchanges, with what is not read yet."""
        ahead = self._ahead.get(CLIENT_WIRE)
        self._end(CLIENT_WIRE, HandBack(request + (ahead.data[ahead.at :] if ahead else b"")))

    def stream(self, client: DownstreamHalf, request: Request, framing: Framing) -> ExchangeStream:
        """Begin an exchange of the client."""
        try:
            stream = ExchangeStream(self.service, self.upstreams, client, request, framing, self.account)
        except Exception:
            # The fault ends the connection, and the request that met it still gets its record.
            self.refused("internal")
            raise
        self._live.add(stream)
        return stream

    def go_on_later(self, stream: ExchangeStream) -> None:
        """Let an exchange go on in another turn."""
        self._behind[stream] = None

    def record_written(self, stream: ExchangeStream) -> None:
        """Give back the share of an exchange that has its record."""
        self._behind.pop(stream, None)
        if stream in self._live:
            self._live.discard(stream)
            self.account.give(Resource.EXCHANGES)

    def refused(self, code: str) -> str:
        """Record a request without an exchange, such as an unreadable one; return its id."""
        request = self.service.request_id()
        exchange = Exchange(self.service.policy(), self.identity, self.destination)
        exchange.abort(code)
        now = self.service.monotonic()
        self.service.finish(None, request, exchange.finish(), ExchangeTiming(began=now, ended=now))
        return request

    def _end(self, wire: int, order: Close | Reset | HandBack) -> None:
        if wire not in self._open:
            return
        self._open.discard(wire)
        self._ahead.pop(wire, None)
        self._orders.append(order)
        if wire != CLIENT_WIRE:
            self.account.give(Resource.UPSTREAMS)
        else:
            self.is_closed = True
            # First, since the steps after it could fail.
            self.account.close()
            for stream in list(self._live):
                stream.client_left()
            for each in self.upstreams.wires:
                self._end(each, Close(each))

    @staticmethod
    def _shut(stream: ExchangeStream, code: str) -> None:
        try:
            stream.abort(code)
        except Exception:  # noqa: BLE001 - it may be the fault that this is called for
            stream.give_up(code)

    def _taken(self) -> list[RelayOrder]:
        self._pump()
        if self._wants_turn():
            self._is_due = True
            self._orders.append(YieldTurn())
        orders, self._orders = self._orders, []
        return orders

    # One turn

    def _pump(self) -> None:
        self._client.pump()
        if self.upstreams.pump():
            # Bytes that went up may have made room for more of the client's.
            self._client.pump()

    def _wants_turn(self) -> bool:
        if self._is_due or self.is_closed:
            return False
        if self._client.wants_turn or self._behind or self.upstreams.wants_turn:
            return True
        if not self._ahead:
            return False
        # A half that is held goes on when it is let go, which is an entry too.
        halves = [self._half(wire) for wire in self._ahead]
        return any(half is None or half.reads for half in halves)

    def _half(self, wire: int) -> ProtocolSide | None:
        return self._client if wire == CLIENT_WIRE else self.upstreams.get(wire)

    def _take(self, wire: int, half: ProtocolSide, data: bytes) -> None:
        """Hand over what was read, as far as there is time for it."""
        ahead = self._ahead.get(wire)
        if ahead is not None:
            # Earlier input of the wire waits, so this waits behind it.
            ahead.add(data)
        elif self.service.turn.is_over:
            self._ahead[wire] = WaitingInput(data)
        elif (end := half.piece_end(data, 0)) == len(data):
            half.received(data)
        else:
            self._ahead[wire] = ahead = WaitingInput(data)
            self._advance(wire, ahead, end)

    def received_ahead(self, wire: int, data: bytes) -> None:
        """Take bytes that came ahead of a switch, once it is complete."""
        ahead = self._ahead.get(wire)
        if ahead is not None:
            ahead.put_first(data)
        elif data:
            self._ahead[wire] = WaitingInput(data)

    def _advance(self, wire: int, ahead: WaitingInput, end: int = 0) -> None:
        """Hand over piece by piece, until the turn is over or no more is wanted; always one at least.

        `end`: where the first piece ends, if that is known.
        """
        turn = self.service.turn
        # The loop ends if the wire was closed meanwhile.
        while ahead.at < len(ahead.data) and self._ahead.get(wire) is ahead:
            half = self._half(wire)
            if half is None:
                ahead.at = len(ahead.data)
                break
            if not half.reads:
                return
            start, ahead.at = ahead.at, end or half.piece_end(ahead.data, ahead.at)
            end = 0
            half.received(ahead.data[start : ahead.at])
            is_over = turn.is_over
            half.note_piece(is_over=is_over)
            if is_over and self._ahead.get(wire) is ahead:
                # Other wires go first in the next turn.
                del self._ahead[wire]
                self._ahead[wire] = ahead
                return
        if self._ahead.get(wire) is ahead:
            del self._ahead[wire]
            if ahead.end:
                self._ended(wire, ahead.end)

    def _ended(self, wire: int, how: WireEnd) -> None:
        half = self._half(wire)
        if isinstance(half, Http1Upstream):
            half.ended(how)
        elif half is not None:
            # HTTP/2 frames mark the ends of messages themselves, so a cut needs no flag.
            half.ended()
