"""A handshake over a pair of sockets: it verifies, it says why it failed, and sends nothing behind it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from egress.ca.bundle import certificates
from egress.doctor.upstream_handshake import HandshakeError, shake
from egress.tls.contexts import UpstreamContexts
from egress.tls.verification import is_verified, verification_failure
from tests.proxy.lab.certificates import Certificates

NAME = "api.example.test"
certs = Certificates()


class Server:
    """The other end; it shakes hands, then reads until the end."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.received = b""
        self._sock, self._context = sock, context
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._context.wrap_socket(self._sock, server_side=True) as tls:
                while data := tls.recv(1000):
                    self.received += data
        except OSError:
            # The client did not like what it saw, or is gone.
            self._sock.close()

    def end(self) -> bytes:
        self._thread.join()
        return self.received


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        yield ours, theirs
    finally:
        ours.close()
        theirs.close()


def upstream() -> UpstreamContexts:
    return UpstreamContexts(certificates(certs.ca_pem))


async def test_a_server_that_is_who_it_should_be_is_verified_and_sent_nothing() -> None:
    with pair() as (ours, theirs):
        server = Server(theirs, certs.good(NAME))
        tls = upstream().connecting(NAME, (b"http/1.1",))
        await shake(ours, tls)
        assert is_verified(tls)
        assert tls.get_alpn_proto_negotiated() == b"http/1.1"
        ours.close()
        assert server.end() == b""


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        (certs.expired(NAME), "expired"),
        (certs.wrong_name(), "mismatch"),
        (certs.unknown_ca(NAME), "issuer certificate"),
    ],
)
async def test_a_server_that_is_not_is_refused_with_the_reason(context: ssl.SSLContext, reason: str) -> None:
    with pair() as (ours, theirs):
        server = Server(theirs, context)
        tls = upstream().connecting(NAME, ())
        with pytest.raises(HandshakeError):
            await shake(ours, tls)
        assert reason in verification_failure(tls)
        ours.close()
        server.end()


async def test_a_server_that_goes_away_is_told() -> None:
    with pair() as (ours, theirs):
        theirs.close()
        with pytest.raises((HandshakeError, OSError)):
            await shake(ours, upstream().connecting(NAME, ()))


async def test_what_speaks_no_tls_is_refused() -> None:
    with pair() as (ours, theirs):
        theirs.sendall(b"SSH-2.0-OpenSSH_9\r\n")
        tls = upstream().connecting(NAME, ())
        with pytest.raises(HandshakeError, match="failed"):
            await shake(ours, tls)
        assert verification_failure(tls) == ""
