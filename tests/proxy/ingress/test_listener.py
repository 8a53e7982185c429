"""What a listening socket is made like, and which listeners make no sense."""

from __future__ import annotations

import socket

import pytest

from egress.errors import UsageError
from egress.proxy.ingress.listener import Listener, check_listener, listen, listen_udp, password_digest


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_listens_with_the_protocol_named(host: str) -> None:
    """Otherwise asyncio leaves Nagle's algorithm on, and each handshake takes 40 ms more."""
    with listen(host, 0) as sock:
        assert sock.proto == socket.IPPROTO_TCP
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        assert sock.gettimeout() == 0
        listener = Listener("proxy", "proxy", "box", sock)
        assert listener.port == sock.getsockname()[1]
        with socket.create_connection(sock.getsockname()[:2]):
            pass


def test_a_port_in_use_is_an_error_and_leaves_nothing_open() -> None:
    with listen("127.0.0.1", 0) as sock, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", sock.getsockname()[1])


def test_the_port_that_sandboxes_dial_may_be_another_one() -> None:
    with listen("127.0.0.1", 0) as sock:
        assert Listener("x", "transparent", "box", sock, given_port=443).port == 443


def test_a_listener_does_not_show_its_password() -> None:
    with listen("127.0.0.1", 0) as sock:
        listener = Listener("x", "proxy", "box", sock, "password", password_digest("hunter2"))
        assert "password=" not in repr(listener)


@pytest.mark.parametrize("digest", [b"", password_digest("")])
def test_a_password_listener_needs_a_password(digest: bytes) -> None:
    with listen("127.0.0.1", 0) as sock, pytest.raises(UsageError):
        check_listener(Listener("x", "proxy", "box", sock, "password", digest))


def test_only_a_client_that_knows_of_the_proxy_can_be_asked_for_a_password() -> None:
    with listen("127.0.0.1", 0) as sock:
        digest = password_digest("hunter2")
        check_listener(Listener("x", "proxy", "box", sock, "password", digest))
        with pytest.raises(UsageError):
            check_listener(Listener("x", "transparent", "box", sock, "password", digest))


def test_datagrams_are_taken_at_a_port_of_its_own() -> None:
    with listen_udp("127.0.0.1", 0) as sock:
        assert sock.type == socket.SOCK_DGRAM
        with pytest.raises(OSError, match="in use"):
            listen_udp("127.0.0.1", sock.getsockname()[1])
        with listen("127.0.0.1", 0) as tcp, pytest.raises(UsageError, match="datagram"):
            check_listener(Listener("x", "dns-udp", "box", tcp, "owner-uid"))
