"""The connection to a collector, over real sockets: what is sent, and what no collector can bring about."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Protocol

import pytest

from egress.telemetry.otlp_client import MAX_REPLY_BYTES, CollectorClient, collector_tls
from egress.telemetry.otlp_endpoint import CollectorEndpoint
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.otlp_receiver import OtlpReceiver

TOKEN = {"authorization": "Bearer token"}


class Dial(Protocol):
    """Makes a client of a collector on a port of this machine."""

    def __call__(
        self, port: int, *, timeout: float = 5.0, tls: ssl.SSLContext | None = None
    ) -> CollectorClient: ...


@pytest.fixture
def client() -> Iterator[Dial]:
    with ExitStack() as stack:

        def dial(port: int, *, timeout: float = 5.0, tls: ssl.SSLContext | None = None) -> CollectorClient:
            at = CollectorEndpoint(tls is not None, "localhost" if tls else "127.0.0.1", port, "/base")
            return stack.enter_context(
                closing(CollectorClient(at, lambda: TOKEN, "egress/test", tls, timeout))
            )

        yield dial


@contextmanager
def speaking(reply: Callable[[socket.socket], None], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that reads a request whose body is `x` from each connection, then does this."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    try:
                        talk = tls.wrap_socket(peer, server_side=True) if tls else peer
                        with talk:
                            asked = b""
                            # To its end: closed on unread bytes, a connection is reset.
                            while not asked.endswith(b"\r\n\r\nx"):
                                asked += talk.recv(1 << 16) or b"\r\n\r\nx"
                            reply(talk)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def test_messages_go_over_one_connection_with_the_headers(client: Dial) -> None:
    with OtlpReceiver() as receiver:
        collector = client(receiver.port)
        assert collector.post("traces", b"").is_taken
        first = collector._connection
        assert collector.post("logs", b"").is_taken
        assert collector._connection is first
    assert receiver.paths == ["/base/v1/traces", "/base/v1/logs"]
    assert receiver.heads[0] == {
        "host": f"127.0.0.1:{receiver.port}",
        "accept-encoding": "identity",
        "content-length": "0",
        "authorization": "Bearer token",
        "user-agent": "egress/test",
        "content-type": "application/x-protobuf",
    }


def test_no_variable_leads_elsewhere(client: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with OtlpReceiver() as receiver:
        assert client(receiver.port).post("traces", b"").is_taken


def test_a_redirect_is_not_followed(client: Dial) -> None:
    """The token is for the collector that was named."""
    with OtlpReceiver() as other, OtlpReceiver() as receiver:
        receiver.answer = lambda: (307, {"location": f"{other.url}/v1/traces"}, b"")
        reply = client(receiver.port).post("traces", b"")
        assert (reply.status, reply.is_taken, reply.is_worth_retrying) == (307, False, False)
    assert other.paths == []


def test_a_kept_connection_that_was_closed_is_made_anew(client: Dial) -> None:
    with speaking(lambda talk: talk.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")) as port:
        collector = client(port)
        assert [collector.post("traces", b"x").status for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (b"", "it sent what is no reply"),
        (b"words of the collector\r\n\r\n", "it sent what is no reply"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 100_000 + b"\r\n\r\n", "it sent what is no reply"),
    ],
)
def test_what_is_no_reply_is_none_and_is_not_quoted(client: Dial, said: bytes, cause: str) -> None:
    with speaking(lambda talk: talk.sendall(said)) as port:
        reply = client(port).post("traces", b"x")
    assert (reply.status, reply.cause) == (0, cause)
    assert reply.is_worth_retrying


def test_a_reply_without_end_is_not_read_to_its_end(client: Dial) -> None:
    def endless(talk: socket.socket) -> None:
        talk.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            talk.sendall(b"x" * 65536)

    with speaking(endless) as port:
        collector = client(port)
        reply = collector.post("traces", b"x")
        assert (reply.status, len(reply.body)) == (200, MAX_REPLY_BYTES)
        assert collector._connection is None, "what is left of it is no other reply"


def test_silence_ends_with_the_timeout_and_nobody_there_is_told(client: Dial) -> None:
    ended = threading.Event()

    def wait(_: socket.socket) -> None:
        ended.wait(10)

    with speaking(wait) as port:
        assert client(port, timeout=0.2).post("traces", b"x").cause == "it did not answer in time"
        ended.set()
    assert "refused" in client(port).post("traces", b"x").cause.lower()


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("7", 7),
        ("0", 0),
        ("99999999", 30),
        ("-1", 0),
        ("1e3", 0),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0),
        ("9" * 400, 0),
    ],
)
def test_the_wait_that_a_collector_asks_for_is_bounded(client: Dial, written: str, seconds: float) -> None:
    with OtlpReceiver(answer=lambda: (429, {"retry-after": written}, b"")) as receiver:
        reply = client(receiver.port).post("traces", b"")
    assert (reply.retry_after, reply.is_worth_retrying) == (seconds, True)


def test_tls_is_verified_and_the_token_goes_to_nobody_else(client: Dial) -> None:
    certs = Certificates()
    trusted = collector_tls(certs.ca_pem)
    seen: list[bytes] = []

    def answer(talk: socket.socket) -> None:
        seen.append(b"asked")
        talk.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    with speaking(answer, certs.good("localhost")) as port:
        assert client(port, tls=trusted).post("traces", b"x").is_taken, "the good twin"
        other = Certificates()
        assert client(port, tls=collector_tls(other.ca_pem)).post("traces", b"x").cause == (
            "its certificate is not trusted"
        )
    with speaking(answer, certs.good("other.example.test")) as port:
        assert client(port, tls=trusted).post("traces", b"x").cause == "its certificate is not trusted"
    assert seen == [b"asked"]
