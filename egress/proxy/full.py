"""The full lane: TLS on both sides by mitmproxy, HTTP by our own relay, every exchange decided.

It wires together what one intercepted connection needs: mitmproxy's master with our few add-ons, the
guard around them, and a `Handler` for each client connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from mitmproxy.connection import Client
from mitmproxy.proxy.context import Context

from egress.addons.contexts import Upstream
from egress.addons.guard import Guard
from egress.addons.http import HttpLayer
from egress.addons.master import build_master
from egress.addons.next_layer import NextLayerChooser
from egress.addons.tls import Proven, Refused, Terms, Tls
from egress.errors import UsageError
from egress.proxy.arrival import Arrival
from egress.proxy.desk import Desk
from egress.proxy.dial import Connected
from egress.proxy.engine import Engine
from egress.proxy.handler import FullLimits, Handler
from egress.relay.relay import Protocol
from egress.rules.decide import decide_host
from egress.rules.policy import Policy

log = structlog.get_logger(__name__)

_HTTP1_0: Final = b"http/1.0"
_HTTP1: Final = b"http/1.1"
_HTTP2: Final = b"h2"


DEFAULT_LIMITS: Final = FullLimits()
NO_PINS: Final[Mapping[str, frozenset[str]]] = {}
_UNPINNED: Final[frozenset[str]] = frozenset()


class FullLane:
    """Carries intercepted connections."""

    def __init__(
        self,
        engine: Engine,
        upstream: Upstream,
        limits: FullLimits = DEFAULT_LIMITS,
        pins: Mapping[str, frozenset[str]] = NO_PINS,
    ) -> None:
        """`upstream` says whom to trust, `pins` which keys a host is held to beside that.

        Must be called inside of a running loop.
        """
        self.engine = engine
        self.limits = limits
        self.pins = pins
        self._handlers: dict[Client, Handler] = {}
        self.tls = Tls(self._terms, self._told, upstream, engine.clock)
        self.addons: Sequence[object] = (NextLayerChooser(self._http), self.tls)
        self.guard = Guard(self.addons)
        self.options = build_master(self.addons).options

    async def carry(
        self, arrival: Arrival, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ahead: bytes
    ) -> None:
        """Carry a connection to its end; `ahead` is what was read of it already."""
        sandbox = self.engine.sandboxes.get(arrival.identity.sandbox)
        if sandbox is None or sandbox.identity != arrival.identity:
            raise UsageError("a connection of a sandbox that is not known reached the lane")
        transport = writer.transport
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a lane carries streams of sockets")
        transport.pause_reading()
        # All that the stream holds: after an end is fed, `read` returns without waiting.
        reader.feed_eof()
        # What a client that is lost already had said asks for nothing any more.
        with contextlib.suppress(OSError):
            ahead += await reader.read()
        handler = Handler(self, Desk(self.engine, arrival, sandbox))
        try:
            self._handlers[handler.client] = handler
            self.engine.live.enter(handler)
            handler.start(transport, ahead)
            await handler.gone
        finally:
            try:
                handler.leave()
            finally:
                self.engine.live.leave(handler)
                del self._handlers[handler.client]

    def tick(self) -> None:
        """A second, or so, has passed: look for what takes too long."""
        now = self.engine.clock.monotonic()
        for handler in list(self._handlers.values()):
            handler.tick(now)

    # What handlers ask

    async def dial(self, arrival: Arrival) -> Connected:
        """Connect to the destination, at an address that was checked."""
        deadline = self.engine.clock.monotonic() + self.limits.dial
        return await self.engine.dialer.connect(
            arrival.destination, arrival.decision, deadline=deadline, owner=arrival.identity.sandbox
        )

    def still_allows(self, arrival: Arrival, policy: Policy, now: int) -> bool:
        """Whether this policy would let the connection be made now, and in this lane."""
        to = arrival.destination
        decision = decide_host(policy, arrival.identity, to.host, to.port, now, scheme=to.scheme)
        return decision.allowed and decision.intercept

    # What the add-ons ask

    def _http(self, context: Context, protocol: Protocol) -> HttpLayer:
        return self._handlers[context.client].http(context, protocol)

    def _terms(self, client: Client) -> Terms | None:
        handler = self._handlers.get(client)
        if handler is None:
            return None
        arrival, sandbox = handler.arrival, handler.desk.sandbox
        return Terms(
            sandbox=sandbox.identity.sandbox,
            authority=sandbox.authority,
            host=arrival.destination.host,
            port=arrival.destination.port,
            client_alpn=_offer(arrival),
            upstream_alpn=(_HTTP2, _HTTP1) if client.alpn == _HTTP2 else (_HTTP1,),
            pins=self.pins.get(arrival.destination.host, _UNPINNED),
        )

    def _told(self, client: Client, what: Refused | Proven) -> None:
        handler = self._handlers.get(client)
        if handler is not None and isinstance(what, Refused):
            log.info("tls.refused", connection=handler.arrival.id, code=what.code, reason=what.reason)
            handler.reason = what.code


def _offer(arrival: Arrival) -> tuple[bytes, ...]:
    """The protocols for a client: HTTP/2 where a rule asks for it, or where it speaks nothing else."""
    offered = arrival.hello.alpn if arrival.hello else ()
    only_http2 = "h2" in offered and "http/1.1" not in offered
    # Clients that speak 1.0 say so, and offer nothing else.
    http1 = (_HTTP1, _HTTP1_0)
    return (_HTTP2, *http1) if arrival.decision.http2 or only_http2 else http1
