"""Listening for previews: an address that is taken, and a preview over TLS."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.fleet import Preview
from egress.fleet.preview_address import PreviewPlace
from egress.fleet.preview_listener import listen_at
from egress.proxy.setting_values import ListenAddress
from tests.fleet.memory_fleet import MemoryFleet, spec
from tests.proxy.lab.certificates import Certificates

DOMAIN = "previews.example.com"
_MUCH = b"0123456789abcdef" * 65536


def test_an_address_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = ListenAddress("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(UnreadableError, match=f"cannot be served on {at}"):
            listen_at(PreviewPlace(at=at))


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    at = ListenAddress("127.0.0.1", 0)
    with pytest.raises(UnreadableError, match="cannot be used"):
        listen_at(PreviewPlace(at=at, domain=DOMAIN, certificate=tmp_path / "c", key=tmp_path / "k"))


# Over TLS -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SecurePreview:
    """A preview over TLS, and the listener in the sandbox."""

    shown: Preview
    port: int
    trust: ssl.SSLContext
    site: socket.socket

    def connect(self) -> ssl.SSLSocket:
        sock = socket.create_connection(("127.0.0.1", self.port), 30)
        return self.trust.wrap_socket(sock, server_hostname=self.shown.origin.split("/")[2].split(":")[0])

    @property
    def fields(self) -> str:
        return f"Host: {self.shown.origin.split('/')[2]}\r\nEgress-Preview-Token: {self.shown.token}\r\n"


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[SecurePreview]:
    certificates = Certificates()
    certificate, key = certificates.write_leaf(tmp_path, f"*.{DOMAIN}")
    estate = MemoryFleet()
    place = PreviewPlace(at=ListenAddress("127.0.0.1", 0), domain=DOMAIN, certificate=certificate, key=key)
    listener = listen_at(place)
    estate.fleet.exposed.listen_at(listener)
    estate.fleet.create(spec())
    estate.fleet.start("one")
    with socket.create_server(("127.0.0.1", 0)) as site:
        site.settimeout(30)
        estate.runtime.ports["one", 8000] = site.getsockname()[:2]
        shown = estate.fleet.expose("one", 8000)
        yield SecurePreview(shown, listener.address[1], certificates.trust(), site)
        estate.fleet.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", listener.address[1]))


def test_a_page_comes_over_tls_below_the_domain(secure: SecurePreview) -> None:
    assert secure.shown.origin.startswith("https://8000-one-")
    assert secure.shown.origin.endswith(f".{DOMAIN}:{secure.port}")

    def serve() -> None:
        with secure.site.accept()[0] as inside:
            asked.append(inside.recv(65536))
            inside.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=1; Domain=x\r\n\r\nhi")

    asked: list[bytes] = []
    serving = threading.Thread(target=serve)
    serving.start()
    with closing(secure.connect()) as sock:
        sock.sendall(f"GET / HTTP/1.1\r\n{secure.fields}\r\n".encode())
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        assert (answer.status, answer.read(), answer.getheader("set-cookie")) == (200, b"hi", "a=1")
    serving.join(30)
    assert b"x-forwarded-proto: https\r\n" in asked[0].lower()
    assert secure.shown.token.encode() not in asked[0]


def test_a_websocket_carries_much_both_ways_at_once(secure: SecurePreview) -> None:
    """One thread reads from the browser while another one writes to it."""

    def serve() -> None:
        with secure.site.accept()[0] as inside:
            inside.recv(65536)
            inside.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            )
            while data := inside.recv(65536):
                inside.sendall(data)

    serving = threading.Thread(target=serve)
    serving.start()
    with closing(secure.connect()) as sock:
        upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        sock.sendall(f"GET / HTTP/1.1\r\n{secure.fields}{upgrade}\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += sock.recv(1)
        assert head.startswith(b"HTTP/1.1 101 ")
        for _ in range(4):
            sock.sendall(_MUCH[:65536])
            got = b""
            while len(got) < 65536:
                got += sock.recv(65536)
            assert got == _MUCH[:65536]
        sock.shutdown(socket.SHUT_WR)
    serving.join(30)


def test_clear_text_gets_nothing_there(secure: SecurePreview) -> None:
    with socket.create_connection(("127.0.0.1", secure.port), 30) as sock:
        sock.sendall(f"GET / HTTP/1.1\r\n{secure.fields}\r\n".encode())
        answer = b""
        with suppress(ConnectionResetError):
            while data := sock.recv(65536):
                answer += data
        assert b"HTTP" not in answer


def test_a_client_that_does_not_shake_hands_holds_up_no_other(secure: SecurePreview) -> None:
    silent = [socket.create_connection(("127.0.0.1", secure.port), 30) for _ in range(4)]
    silent[0].close()
    with closing(secure.connect()) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert sock.recv(12) == b"HTTP/1.1 421"
        assert sock.version() == "TLSv1.3"
    for each in silent[1:]:
        each.close()
