"""The intercept lane: TLS on both sides by mitmproxy, HTTP by our own relay, every exchange decided.

It wires our few add-ons, the guard around them, and an `InterceptHandler` for each client connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import structlog
from mitmproxy.connection import Client
from mitmproxy.proxy.context import Context
from mitmproxy.tls import TlsData

from egress.addons.guard import HookGuard, error_location
from egress.addons.http_layers import HttpLayer, NextLayerChooser, dissolve
from egress.addons.tls_hooks import TlsHooks
from egress.addons.withheld_options import check_key_log
from egress.environment import read_environment
from egress.proxy.lanes.connection import AdmittedConnection, CarriedConnection
from egress.proxy.lanes.dial import ConnectedSocket, DialError
from egress.proxy.lanes.engine import ProxyEngine
from egress.proxy.lanes.intercept_handler import InterceptHandler
from egress.proxy.lanes.intercept_limits import InterceptLimits
from egress.proxy.lanes.relay_services import RelayServices, sandbox_of
from egress.relay.relay import ClientProtocol
from egress.rules.decide.decision import decide_host
from egress.rules.decide.policy import Policy
from egress.tls.contexts import UpstreamContexts
from egress.tls.openssl_environment import check_environment
from egress.tls.verification import HandshakeRefusal, TlsTerms, UpstreamProof
from egress.types import HostDecision

log = structlog.get_logger(__name__)

_HTTP1_0: Final = b"http/1.0"
_HTTP1: Final = b"http/1.1"
_HTTP2: Final = b"h2"


DEFAULT_LIMITS: Final = InterceptLimits()
NO_PINS: Final[Mapping[str, frozenset[str]]] = {}
_UNPINNED: Final[frozenset[str]] = frozenset()


class InterceptLane:
    """Carries intercepted connections."""

    def __init__(
        self,
        engine: ProxyEngine,
        upstream: UpstreamContexts,
        limits: InterceptLimits = DEFAULT_LIMITS,
        pins: Mapping[str, frozenset[str]] = NO_PINS,
    ) -> None:
        """`upstream` holds the trusted roots, `pins` the keys that a host must show as well.

        Must be called inside of a running loop. Raises `UsageError` where the environment configures OpenSSL.
        """
        check_environment(read_environment())
        check_key_log()
        self.engine = engine
        self.limits = limits
        self.pins = pins
        self._handlers: dict[Client, InterceptHandler] = {}
        self._ticking: set[InterceptHandler] = set()
        """Handlers that wait for a turn to look at their times."""
        self._upstream = upstream
        self.tls = TlsHooks(self._terms, self._told, upstream, engine.clock)
        failed = FailedHandshakes(self._failed)
        self.addons: Sequence[object] = (NextLayerChooser(self._http), self.tls, failed)
        self.guard = HookGuard(self.addons)

    async def carry(
        self,
        admitted: AdmittedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ahead: bytes,
    ) -> bytes | None:
        """Carry a connection to its end, or until its client goes on to another destination.

        `ahead` is what was read of it already; what was read for another destination is returned.
        """
        services = RelayServices(self.engine, admitted, sandbox_of(self.engine, admitted))
        return await self.serve(InterceptHandler(self, services), reader, writer, ahead)

    async def serve(
        self,
        handler: InterceptHandler,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ahead: bytes,
    ) -> bytes | None:
        """Hand the connection to its handler, and return as `carry` does."""
        transport = writer.transport
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a lane carries streams of sockets")
        transport.pause_reading()
        # The stream is emptied: after an end is fed, `read` returns without waiting.
        reader.feed_eof()
        # The last bytes of a client that is already lost need no answer.
        with contextlib.suppress(OSError):
            ahead += await reader.read()
        try:
            self._handlers[handler.client] = handler
            self.engine.live.enter(handler)
            handler.start(transport, ahead)
            return await handler.gone
        finally:
            try:
                handler.leave()
            finally:
                self.engine.live.leave(handler)
                del self._handlers[handler.client]
                _dissolve(handler)

    def tick(self) -> None:
        """End the stages that take too long; called about once a second."""
        now = self.engine.clock.monotonic()
        for handler in self._handlers.values():
            # In turns: a sandbox may have hundreds of connections. What still waits does not wait twice.
            if handler.needs_tick(now) and handler not in self._ticking:
                self._ticking.add(handler)
                handler.services.turn.wait(functools.partial(self._tick, handler))

    def _tick(self, handler: InterceptHandler) -> None:
        self._ticking.discard(handler)
        # It may have ended while this waited.
        if handler.client in self._handlers:
            handler.tick(self.engine.clock.monotonic())

    # Services of the handlers

    async def dial(self, admitted: CarriedConnection) -> ConnectedSocket:
        """Connect to the destination, at an address that is allowed now: rules change under a connection."""
        if not isinstance(admitted, AdmittedConnection):
            raise TypeError("only an admitted connection is given an upstream")
        engine, policy = self.engine, self.engine.policy
        decision = _decide(admitted, policy, engine.clock.now())
        if not (decision.allowed and decision.intercept):
            raise _withdrawn(admitted)
        to = admitted.destination
        if to.scheme == "https" and not self._upstream.can_prove(to.host):
            raise DialError("upstream.tls", f"OpenSSL verifies no name like {to.host}")
        connected = await engine.dialer.connect(
            admitted.destination,
            decision,
            deadline=engine.clock.monotonic() + self.limits.dial,
            owner=admitted.identity.sandbox,
        )
        if engine.policy is not policy and not self.still_allows(
            admitted, engine.policy, engine.clock.now(), (connected.address,)
        ):
            # The address was not in use during the swap of the policy, so no recheck has covered it.
            connected.socket.close()
            raise _withdrawn(admitted)
        return connected

    def still_allows(
        self, admitted: CarriedConnection, policy: Policy, now: int, addresses: Collection[str] = ()
    ) -> bool:
        """Tell whether this policy would let the connection be made now, in this lane, to these addresses."""
        decision = _decide(admitted, policy, now)
        if not (decision.allowed and decision.intercept):
            return False
        try:
            self.engine.dialer.check(admitted.destination.host, decision, tuple(addresses))
        except DialError:
            return False
        return True

    # Calls of the add-ons

    def _http(self, context: Context, protocol: ClientProtocol) -> HttpLayer:
        return self._handlers[context.client].http(context, protocol)

    def _terms(self, client: Client) -> TlsTerms | None:
        handler = self._handlers.get(client)
        if handler is None:
            return None
        admitted, sandbox = handler.admitted, handler.services.sandbox
        return TlsTerms(
            sandbox=sandbox.identity.sandbox,
            authority=sandbox.authority,
            host=admitted.destination.host,
            port=admitted.destination.port,
            client_alpn=_offer(admitted),
            upstream_alpn=(_HTTP2, _HTTP1) if client.alpn == _HTTP2 else (_HTTP1,),
            pins=self.pins.get(admitted.destination.host, _UNPINNED),
        )

    def _failed(self, client: Client) -> None:
        handler = self._handlers.get(client)
        if handler is not None:
            log.info("tls.failed", connection=handler.admitted.id, host=handler.admitted.destination.host)
            handler.reason = "tls.failed"

    def _told(self, client: Client, what: HandshakeRefusal | UpstreamProof) -> None:
        handler = self._handlers.get(client)
        if handler is not None and isinstance(what, HandshakeRefusal):
            to = handler.admitted.destination
            log.info(
                "tls.refused",
                connection=handler.admitted.id,
                host=to.host,
                code=what.code,
                reason=what.reason,
            )
            if handler.relay is None:
                handler.reason, handler.was_refused = what.code, True


def _dissolve(handler: InterceptHandler) -> None:
    """Take apart what has ended, and has its records: after a fault the garbage collector frees it."""
    try:
        dissolve(handler.context.layers)
    except BaseException as error:
        log.error("connection.kept", connection=handler.admitted.id, error=error_location(error))  # noqa: TRY400
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise


class FailedHandshakes:
    """The add-on for failed handshakes with clients: most of these clients do not trust our certificate."""

    def __init__(self, tell: Callable[[Client], None]) -> None:
        self._tell = tell

    def tls_failed_client(self, data: TlsData) -> None:
        # Without an OpenSSL connection no handshake has begun, and its refusal is already recorded.
        if data.ssl_conn is not None:
            self._tell(data.context.client)


def _decide(admitted: CarriedConnection, policy: Policy, now: int) -> HostDecision:
    to = admitted.destination
    return decide_host(policy, admitted.identity, to.host, to.port, now, scheme=to.scheme)


def _withdrawn(admitted: CarriedConnection) -> DialError:
    return DialError("access.withdrawn", f"the rules do not allow {admitted.destination.host} any more")


def _offer(admitted: CarriedConnection) -> tuple[bytes, ...]:
    """Return the protocols for a client: HTTP/2 if a rule asks for it, or if the client speaks no other."""
    offered = admitted.hello.alpn if admitted.hello else ()
    only_http2 = "h2" in offered and "http/1.1" not in offered
    # Clients of HTTP/1.0 offer no other protocol.
    http1 = (_HTTP1, _HTTP1_0)
    return (_HTTP2, *http1) if admitted.decision.http2 or only_http2 else http1
