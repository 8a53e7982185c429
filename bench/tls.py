"""What TLS costs without a network: signing a leaf, and handshakes towards clients and upstreams.

Both ends run here, so a handshake is the work of two: about half of it is ours. Prints numbers; judges
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

from OpenSSL import SSL, crypto

from bench._timing import microseconds, seconds
from egress.ca import Authority
from egress.ca.bundle import certificates
from egress.tls.contexts import ClientContexts, UpstreamContexts
from egress.tls.roots import trusted_roots

Row = tuple[str, float, str, float | None]

HOST = "api.example.com"
ALPN = (b"http/1.1",)
NOW = int(time.time())
_NUMBERS = count()


def run() -> list[Row]:
    """Measure every row, best of several rounds."""
    authority, kept = Authority.create("bench", NOW), ClientContexts()
    upstream = UpstreamContexts(certificates(authority.certificate_pem))
    visitor = _visitor(authority)
    shown = ClientContexts()

    def towards_client(session: SSL.Session | None = None) -> SSL.Connection:
        return _shake(_asking(visitor, session), kept.accepting(authority, HOST, ALPN, NOW))

    def towards_upstream(session: SSL.Session | None = None) -> SSL.Connection:
        return _shake(
            upstream.connecting(HOST, ALPN, session=session), shown.accepting(authority, HOST, ALPN, NOW)
        )

    return [
        ("authority, made", microseconds(lambda: Authority.create("x", NOW), 50), "us", None),
        ("leaf, signed", microseconds(_signing(authority), 200), "us", None),
        ("leaf, kept", microseconds(lambda: authority.leaf(HOST, NOW)), "us", None),
        ("first connection to a host: leaf and context", microseconds(_first(authority), 100), "us", None),
        ("connection to a known host: context only", _accepting(kept, authority), "us", None),
        ("trusted roots, read and loaded (once)", _roots(), "ms", None),
        ("handshake with a client, both ends", microseconds(towards_client, 100), "us", None),
        ("the same, resumed", _resumed(towards_client), "us", None),
        ("handshake with an upstream, both ends", microseconds(towards_upstream, 100), "us", None),
        ("the same, resumed", _resumed(towards_upstream), "us", None),
    ]


def _signing(authority: Authority) -> Callable[[], object]:
    names = _names()
    return lambda: authority.leaf(next(names), NOW)


def _first(authority: Authority) -> Callable[[], object]:
    names, kept = _names(), ClientContexts()
    return lambda: kept.accepting(authority, next(names), ALPN, NOW)


def _names() -> Iterator[str]:
    return (f"h{next(_NUMBERS)}.example.com" for _ in count())


def _accepting(kept: ClientContexts, authority: Authority) -> float:
    return microseconds(lambda: kept.accepting(authority, HOST, ALPN, NOW), 1000)


def _roots() -> float:
    return seconds(lambda: UpstreamContexts(trusted_roots()), rounds=5) * 1000


def _resumed(shake: Callable[[SSL.Session | None], SSL.Connection]) -> float:
    session = shake(None).get_session()
    return microseconds(lambda: shake(session), 100)


def _visitor(authority: Authority) -> SSL.Context:
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_verify(SSL.VERIFY_PEER)
    store = context.get_cert_store()
    if store is None:
        raise SystemExit("no store for roots")
    store.add_cert(crypto.load_certificate(crypto.FILETYPE_PEM, authority.certificate_pem))
    context.set_alpn_protos(list(ALPN))
    return context


def _asking(context: SSL.Context, session: SSL.Session | None) -> SSL.Connection:
    connection = SSL.Connection(context, None)
    connection.set_tlsext_host_name(HOST.encode())
    if session is not None:
        connection.set_session(session)
    connection.set_connect_state()
    return connection


def _shake(client: SSL.Connection, server: SSL.Connection) -> SSL.Connection:
    """Three flights, then the tickets; returns the client, shut down so that its session stays good."""
    for _ in range(2):
        for ours, theirs in ((client, server), (server, client)):
            _step(ours)
            _carry(ours, theirs)
    try:
        client.recv(1)
    except SSL.WantReadError:
        client.set_shutdown(SSL.SENT_SHUTDOWN | SSL.RECEIVED_SHUTDOWN)
        server.set_shutdown(SSL.SENT_SHUTDOWN | SSL.RECEIVED_SHUTDOWN)
        return client
    raise SystemExit("the server said something")


def _step(connection: SSL.Connection) -> None:
    try:
        connection.do_handshake()
    except SSL.WantReadError:
        return


def _carry(source: SSL.Connection, target: SSL.Connection) -> None:
    try:
        target.bio_write(source.bio_read(1 << 16))
    except SSL.WantReadError:
        return


if __name__ == "__main__":
    for name, value, unit, _ in run():
        print(f"{name:<58} {value:10.2f} {unit}")
