"""Who connects to the page and does not ask keeps nobody else out: on real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from egress.ui.listen import MAX_CONNECTIONS
from tests.ui.served_page import ServedPage

LONG = 3600
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SILENT, HALFWAY = b"", HALF


class Caller:
    """A connection that asks when it is told to."""

    def __init__(self, served: ServedPage, parts: ExitStack) -> None:
        self._served = served
        where = urlsplit(served.root)
        self.socket = parts.enter_context(socket.create_connection((where.hostname or "", where.port or 0)))
        self.socket.settimeout(60)

    def ask(self, cookies: str = "") -> bytes:
        """The status of the list of requests, for one who is logged in."""
        cookie = cookies + self._served.session.cookie.partition(";")[0]
        self.socket.sendall(HALF + f"Cookie: {cookie}\r\n\r\n".encode())
        with self.socket.makefile("rb") as answer:
            status = answer.readline().split()[1]
            size = 0
            while (line := answer.readline().lower()) != b"\r\n":
                size = int(line.split()[1]) if line.startswith(b"content-length:") else size
            answer.read(size)
        return status

    def is_cut_off(self) -> bool:
        """Waits for that, and tells whether it came."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionResetError:
            pass
        return True


@pytest.fixture
def parts() -> Iterator[ExitStack]:
    with ExitStack() as parts:
        yield parts


@pytest.mark.parametrize("said", [SILENT, HALFWAY])
def test_who_asks_nothing_whole_makes_way(said: bytes, tmp_path: Path, parts: ExitStack) -> None:
    served = parts.enter_context(ServedPage(tmp_path, timeout=LONG))
    crowd = [Caller(served, parts) for _ in range(MAX_CONNECTIONS)]
    for each in crowd:
        each.socket.sendall(said)
    assert Caller(served, parts).ask() == b"200"
    assert crowd[0].is_cut_off()


def test_who_falls_silent_after_an_answer_makes_way(tmp_path: Path, parts: ExitStack) -> None:
    served = parts.enter_context(ServedPage(tmp_path, timeout=LONG))
    crowd = [Caller(served, parts) for _ in range(MAX_CONNECTIONS - 1)]
    for each in crowd:
        each.socket.sendall(HALF + b"\r\n")
        each.socket.recv(1)
        each.socket.sendall(HALF)
    assert Caller(served, parts).ask() == b"200"
    assert crowd[0].is_cut_off()


def test_who_has_asked_stays_while_others_are_silent(tmp_path: Path, parts: ExitStack) -> None:
    served = parts.enter_context(ServedPage(tmp_path, timeout=LONG))
    first = Caller(served, parts)
    assert first.ask() == b"200"
    crowd = [Caller(served, parts) for _ in range(2 * MAX_CONNECTIONS)]
    assert crowd[MAX_CONNECTIONS].is_cut_off()
    assert first.ask() == b"200"


def test_who_asks_again_and_again_is_answered_while_others_come_and_come(
    tmp_path: Path, parts: ExitStack
) -> None:
    """Room is made for each that comes; who asks at that very moment must not find it full."""
    served = parts.enter_context(ServedPage(tmp_path, timeout=LONG))
    first = Caller(served, parts)

    def come() -> None:
        for _ in range(4):
            with ExitStack() as crowd:
                for _ in range(2 * MAX_CONNECTIONS):
                    Caller(served, crowd)

    coming = threading.Thread(target=come)
    answers = {first.ask()}
    coming.start()
    try:
        while coming.is_alive():
            answers.add(first.ask())
    finally:
        coming.join()
    assert answers == {b"200"}


@pytest.mark.parametrize("said", [SILENT, HALFWAY])
def test_who_asks_nothing_whole_is_cut_off(said: bytes, tmp_path: Path, parts: ExitStack) -> None:
    caller = Caller(parts.enter_context(ServedPage(tmp_path, timeout=1)), parts)
    caller.socket.sendall(said)
    assert caller.is_cut_off()


@pytest.mark.parametrize("head", [HALF, HALF + b"Content-Length: 9\r\n\r\n"])
def test_who_falls_silent_after_an_answer_is_cut_off(head: bytes, tmp_path: Path, parts: ExitStack) -> None:
    """In the middle of a question, or of what it said would follow one."""
    caller = Caller(parts.enter_context(ServedPage(tmp_path, timeout=1)), parts)
    caller.socket.sendall(HALF + b"\r\n")
    caller.socket.recv(1)
    caller.socket.sendall(head)
    caller.socket.sendall(b"x")
    assert caller.is_cut_off()


def test_all_cookies_that_a_browser_keeps_are_taken(tmp_path: Path, parts: ExitStack) -> None:
    """Another port of this machine may set them all; that must not log the reviewer out."""
    served = parts.enter_context(ServedPage(tmp_path))
    crowd = "".join(f"other-{number}={'x' * 4000}; " for number in range(179))
    assert Caller(served, parts).ask(crowd) == b"200"
