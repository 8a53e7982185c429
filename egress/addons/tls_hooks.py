"""TLS on both sides of an intercepted connection, in place of mitmproxy's own add-on.

The lane sets the terms on which a client is served; no byte of the client changes them. A handshake begins
only after a hello that fits: otherwise `ssl_conn` stays unset, and mitmproxy closes the connection. No bytes
pass unread, and no upstream is contacted before the client's hello is accepted.

It must not decide who may go where, read options, or answer requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakKeyDictionary, WeakSet

from mitmproxy.connection import Client, Connection, Server
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.tls import ClientHelloData, TlsData
from OpenSSL import SSL

from egress.errors import EgressError
from egress.rules.language.hosts import is_address
from egress.tls.client_hello import ClientHello
from egress.tls.contexts import ClientContexts, UpstreamContexts
from egress.tls.pins import Pins
from egress.tls.sessions import SessionKey, UpstreamSessions
from egress.tls.verification import (
    HandshakeRefusal,
    TlsTerms,
    UpstreamProof,
    is_verified,
    proof_of,
    verification_failure,
)

_MISMATCH_CODE: Final = "request.mismatch"
_UNPROVEN_CODE: Final = "upstream.tls"
_FAULT_CODE: Final = "internal"
_FAILED_CODE: Final = "tls.failed"


class TlsClock(Protocol):
    """The time, as the hooks read it."""

    def now(self) -> int: ...

    def monotonic(self) -> float: ...


@dataclass(slots=True)
class _UpstreamState:
    """An upstream connection being made, or in use."""

    key: SessionKey
    verified: float
    pins: Pins | None
    tls: SSL.Connection
    proof: UpstreamProof | None = None


class TlsHooks:
    """The hooks. `about` returns the terms of a client, None if it is unknown; `tell` gets the outcome."""

    def __init__(
        self,
        about: Callable[[Client], TlsTerms | None],
        tell: Callable[[Client, HandshakeRefusal | UpstreamProof], None],
        upstream: UpstreamContexts,
        clock: TlsClock,
    ) -> None:
        self._about = about
        self._tell = tell
        self._upstream = upstream
        self._clock = clock
        self._contexts = ClientContexts()
        self._sessions = UpstreamSessions()
        self._greeted: WeakSet[Client] = WeakSet()
        self._begun: WeakKeyDictionary[Connection, _UpstreamState] = WeakKeyDictionary()

    def proof(self, server: Server) -> UpstreamProof | None:
        """Return the proof of an upstream; None before it is verified, when no byte may be sent to it."""
        under = self._begun.get(server)
        return under.proof if under else None

    def forget(self, sandbox: str) -> None:
        """Drop the sessions of a sandbox that has ended."""
        self._sessions.forget(sandbox)

    # Towards the client -----------------------------------------------------------------------

    def tls_clienthello(self, data: ClientHelloData) -> None:
        """Accept a hello that names the destination, or no host at all."""
        # Set explicitly: an earlier hook must not have decided otherwise.
        data.ignore_connection = False
        data.establish_server_tls_first = False
        client = data.context.client
        self._greeted.discard(client)
        terms = self._about(client)
        if terms is None:
            return
        hello = data.client_hello
        # The reader of the hello has refused names that are repeated or have no canonical spelling.
        if not isinstance(hello, ClientHello) or hello.sni not in {"", terms.host}:
            self._tell(
                client,
                HandshakeRefusal(_MISMATCH_CODE, "the TLS client names another host than the destination"),
            )
            return
        self._greeted.add(client)

    def tls_start_client(self, data: TlsData) -> None:
        """Begin as the destination, once for each accepted hello."""
        data.ssl_conn = None
        client = data.conn
        if data.is_dtls or not isinstance(client, Client) or client not in self._greeted:
            return
        # TLS inside TLS would be a second handshake on one client.
        self._greeted.discard(client)
        terms = self._about(client)
        if terms is None:
            return
        try:
            data.ssl_conn = self._contexts.accepting(
                terms.authority, terms.host, terms.client_alpn, self._clock.now()
            )
        except EgressError as error:
            self._tell(client, HandshakeRefusal(_FAILED_CODE, error.message))

    # Towards the upstream ---------------------------------------------------------------------

    def tls_start_server(self, data: TlsData) -> None:
        """Begin with the destination as the name that is sent and verified, whatever the client named."""
        data.ssl_conn = None
        server = data.conn
        terms = self._about(data.context.client)
        if data.is_dtls or terms is None or not isinstance(server, Server):
            return
        # A proxy on the way would have a name of its own.
        if server is not data.context.server or server.via is not None:
            return
        # A layer may ask for less than the terms allow: a WebSocket needs a connection of HTTP/1.1.
        offers = tuple(server.alpn_offers)
        alpn = offers if offers and set(offers) <= set(terms.upstream_alpn) else terms.upstream_alpn
        try:
            under = self._begin(terms, alpn)
        except EgressError as error:
            self._tell(data.context.client, HandshakeRefusal(_FAULT_CODE, error.message))
            return
        server.sni = None if is_address(terms.host) else terms.host
        server.alpn_offers = alpn
        self._begun[server] = under
        data.ssl_conn = under.tls

    def _begin(self, terms: TlsTerms, alpn: tuple[bytes, ...]) -> _UpstreamState:
        now = self._clock.monotonic()
        key = SessionKey(terms.sandbox, terms.host, terms.port, alpn, terms.pins)
        pins = Pins(terms.pins) if terms.pins else None
        kept = self._sessions.find(key, now)
        tls = self._upstream.connecting(terms.host, alpn, pins, kept.session if kept else None)
        return _UpstreamState(key, kept.verified if kept else now, pins, tls)

    def tls_established_server(self, data: TlsData) -> None:
        """Verify again and note the proof; without proof the connection is made unusable."""
        under = self._begun.get(data.conn)
        if under is None or data.ssl_conn is not under.tls or not is_verified(under.tls):
            if data.ssl_conn is not None:
                data.ssl_conn.set_shutdown(SSL.SENT_SHUTDOWN | SSL.RECEIVED_SHUTDOWN)
            self._begun.pop(data.conn, None)
            self._tell(data.context.client, HandshakeRefusal(_UNPROVEN_CODE, "the upstream was not verified"))
            return
        under.proof = proof_of(under.tls)
        if not under.proof.resumed:
            under.verified = self._clock.monotonic()
        self._tell(data.context.client, under.proof)

    def tls_failed_server(self, data: TlsData) -> None:
        """Say why an upstream was not accepted."""
        under = self._begun.pop(data.conn, None)
        if under is None:
            return
        if under.pins is not None and under.pins.failed:
            reason = "no key in the verified chain of the upstream is pinned for it"
        else:
            reason = verification_failure(under.tls) or "the TLS handshake with the upstream failed"
        self._tell(data.context.client, HandshakeRefusal(_UNPROVEN_CODE, reason))

    def server_disconnected(self, data: ServerConnectionHookData) -> None:
        """Keep the session of an upstream that was proven, for the next connection of this sandbox."""
        under = self._begun.pop(data.server, None)
        if under is not None and under.proof is not None:
            self._sessions.keep(under.key, under.tls, under.verified)
