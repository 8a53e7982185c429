"""One request and its answer: read strictly, written anew, and nothing more on that connection."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from egress.fleet import preview_exchange
from egress.fleet.preview_access import COOKIE_NAME, ShownPort, decide_preview
from egress.fleet.preview_exchange import PreviewExchange
from egress.runtime.errors import PortClosedError
from tests.tiers import examples

SHOWN = ShownPort("one", 80, "80-one.localhost:1", "t" * 43)
KEY = f"cookie: {COOKIE_NAME}={SHOWN.token}\r\n".encode()
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


class Inside:
    """What listens in the sandbox: it gets one connection, and answers as it is told."""

    def __init__(self, answers: Callable[[socket.socket], None]) -> None:
        self._answers = answers
        self.seen = b""
        self.touched = 0
        self.thread: threading.Thread | None = None

    def dial(self, _name: str, _port: int) -> socket.socket:
        ours, theirs = socket.socketpair()

        def run() -> None:
            with theirs:
                theirs.settimeout(20)
                self._answers(theirs)

        self.thread = threading.Thread(target=run)
        self.thread.start()
        return ours

    def touch(self, _name: str) -> None:
        self.touched += 1


@contextmanager
def carried(inside: Inside) -> Iterator[socket.socket]:
    """A browser's end of a connection that is carried."""
    browser, ours = socket.socketpair()
    carry = PreviewExchange(
        ours, lambda head: decide_preview(head, {SHOWN.host: SHOWN}), inside.dial, inside.touch
    )
    thread = threading.Thread(target=carry.run)
    thread.start()
    browser.settimeout(20)
    with browser:
        yield browser
    thread.join()
    if inside.thread is not None:
        inside.thread.join()


def everything(sock: socket.socket) -> bytes:
    found = b""
    while piece := sock.recv(65536):
        found += piece
    return found


def request(line: str = "GET / HTTP/1.1", fields: bytes = b"", body: bytes = b"") -> bytes:
    return f"{line}\r\nhost: {SHOWN.host}\r\n".encode() + KEY + fields + b"\r\n" + body


def until_head(sock: socket.socket) -> bytes:
    found = b""
    while b"\r\n\r\n" not in found and (piece := sock.recv(65536)):
        found += piece
    return found


def answering(inside_seen: list[bytes], answer: bytes = OK) -> Inside:
    def answers(sock: socket.socket) -> None:
        inside_seen.append(until_head(sock))
        sock.sendall(answer)

    return Inside(answers)


def test_a_request_goes_on_without_the_cookie_and_the_answer_comes_back() -> None:
    seen: list[bytes] = []
    inside = answering(seen)
    with carried(inside) as browser:
        browser.sendall(request("GET /a?b HTTP/1.1", b"accept: text/html\r\nx-own: 1\r\n"))
        answer = everything(browser)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nhi")
    assert b"connection: close" in answer.lower()
    assert seen[0].startswith(b"GET /a?b HTTP/1.1\r\n")
    assert b"x-own: 1" in seen[0]
    assert SHOWN.token.encode() not in seen[0]
    assert inside.touched > 0


def test_a_second_request_on_the_connection_never_reaches_the_sandbox() -> None:
    """It would bring the cookie along."""
    seen: list[bytes] = []

    def answers(sock: socket.socket) -> None:
        seen.append(until_head(sock))
        sock.sendall(OK)
        seen.append(everything(sock))

    with carried(Inside(answers)) as browser:
        browser.sendall(request() + request("GET /second HTTP/1.1"))
        everything(browser)
    assert b"second" not in b"".join(seen)
    assert SHOWN.token.encode() not in b"".join(seen)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_goes_on_whole(is_chunked: bool) -> None:
    seen: list[bytes] = []

    def answers(sock: socket.socket) -> None:
        found = until_head(sock)
        while not found.endswith(b"0\r\n\r\n" if is_chunked else b"x" * 1000):
            found += sock.recv(65536)
        seen.append(found)
        sock.sendall(OK)

    body = b"1f4\r\n" + b"x" * 500 + b"\r\n1f4\r\n" + b"x" * 500 + b"\r\n0\r\n\r\n"
    field = b"transfer-encoding: chunked\r\n" if is_chunked else b"content-length: 1000\r\n"
    with carried(Inside(answers)) as browser:
        browser.sendall(request("POST / HTTP/1.1", field, body if is_chunked else b"x" * 1000))
        assert everything(browser).endswith(b"hi")
    assert seen[0].count(b"x" * 100) >= 10


def test_a_websocket_is_bytes_in_both_directions() -> None:
    def answers(sock: socket.socket) -> None:
        head = until_head(sock)
        assert b"upgrade: websocket" in head.lower()
        assert SHOWN.token.encode() not in head
        sock.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nfirst"
        )
        while piece := sock.recv(100):
            sock.sendall(piece.upper())

    with carried(Inside(answers)) as browser:
        browser.sendall(request(fields=b"connection: Upgrade\r\nupgrade: websocket\r\n"))
        found = until_head(browser)
        while not found.endswith(b"first"):
            found += browser.recv(100)
        assert found.startswith(b"HTTP/1.1 101 ")
        for word in (b"one", b"two"):
            browser.sendall(word)
            assert browser.recv(100) == word.upper()
        browser.shutdown(socket.SHUT_WR)
        assert everything(browser) == b""


def test_an_upgrade_that_is_declined_is_a_plain_answer() -> None:
    seen: list[bytes] = []
    with carried(answering(seen)) as browser:
        browser.sendall(request(fields=b"connection: Upgrade\r\nupgrade: websocket\r\n"))
        assert everything(browser).endswith(b"hi")


def test_an_answer_of_any_length_streams_until_it_ends() -> None:
    def answers(sock: socket.socket) -> None:
        until_head(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(50):
            sock.sendall(b"z" * 10_000)

    with carried(Inside(answers)) as browser:
        browser.sendall(request())
        assert everything(browser).count(b"z") == 500_000


def test_interim_answers_come_first() -> None:
    seen: list[bytes] = []
    with carried(answering(seen, b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + OK)) as browser:
        browser.sendall(request())
        found = everything(browser)
    assert found.startswith(b"HTTP/1.1 103 ")
    assert found.endswith(b"hi")


@pytest.mark.parametrize("answer", [b"SSH-2.0-server\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b""])
def test_what_does_not_speak_http_is_said(answer: bytes) -> None:
    with carried(answering([], answer)) as browser:
        browser.sendall(request())
        found = everything(browser)
    assert found.startswith(b"HTTP/1.1 502 ")
    assert b"does not speak HTTP" in found


def test_a_port_on_which_nothing_listens_is_said() -> None:
    class Closed(Inside):
        def dial(self, _name: str, _port: int) -> socket.socket:
            raise PortClosedError("no program listens on port 80 of the sandbox one")

    with carried(Closed(lambda _: None)) as browser:
        browser.sendall(request())
        found = everything(browser)
    assert found.startswith(b"HTTP/1.1 502 ")
    assert b"no program listens on port 80" in found


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET /  HTTP/1.1\r\nhost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\nhost: a\n\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
        b"GET /" + b"a" * 100_000,
    ],
    ids=map(str, range(8)),
)
def test_a_head_that_is_none_is_dialled_nowhere(data: bytes) -> None:
    inside = answering([])
    with carried(inside) as browser:
        browser.sendall(data)
        browser.shutdown(socket.SHUT_WR)
        found = everything(browser)
    assert inside.thread is None
    assert found == b"" or found.startswith(b"HTTP/1.1 4")


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300))
def test_whatever_a_client_sends_ends(data: bytes) -> None:
    """And nothing is dialled for it: it has no token."""
    inside = answering([])
    with carried(inside) as browser:
        browser.sendall(data)
        browser.shutdown(socket.SHUT_WR)
        everything(browser)
    assert inside.thread is None


def test_it_is_ended_from_outside_whatever_it_waits_for() -> None:
    seen: list[bytes] = []
    browser, ours = socket.socketpair()
    inside = Inside(lambda sock: seen.append(until_head(sock) + everything(sock)))
    carry = PreviewExchange(
        ours, lambda head: decide_preview(head, {SHOWN.host: SHOWN}), inside.dial, inside.touch
    )
    thread = threading.Thread(target=carry.run)
    thread.start()
    with browser:
        browser.sendall(request())
        while carry.shown is None or inside.thread is None:
            time.sleep(0.01)
        carry.close()
        thread.join()
        inside.thread.join()
        assert browser.recv(100) == b""


def test_a_browser_that_has_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What listens in the sandbox says nothing, and so kept a connection of all there are for good."""
    # The head of the request has to come within it, too.
    monkeypatch.setattr(preview_exchange, "_HEAD_TIMEOUT", 1.0)
    monkeypatch.setattr(preview_exchange, "_BROWSER_CHECK_INTERVAL", 0.01)
    ends: list[bytes] = []

    def answers(sock: socket.socket) -> None:
        until_head(sock)
        ends.append(everything(sock))

    with carried(Inside(answers)) as browser:
        browser.sendall(request())
    assert ends == [b""]


def test_a_browser_that_only_says_no_more_gets_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The good twin."""
    monkeypatch.setattr(preview_exchange, "_BROWSER_CHECK_INTERVAL", 0.01)
    has_ended = threading.Event()

    def answers(sock: socket.socket) -> None:
        until_head(sock)
        has_ended.wait(20)
        sock.sendall(OK)

    with carried(Inside(answers)) as browser:
        browser.sendall(request())
        browser.shutdown(socket.SHUT_WR)
        has_ended.set()
        assert everything(browser).endswith(b"hi")
