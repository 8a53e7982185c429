"""A question to the proxy of a fleet is answered, or it says why not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from egress.control_client import CONTROL_SOCKET
from egress.fleet.control_client import MAX_QUESTIONS, ask, ask_fleet_proxy
from egress.fleet.protocol import FleetInfo
from egress.runtime.errors import GatewayError
from egress.unix.http_connection import JsonAnswer
from tests.fleet.memory_fleet import short_folder


@contextmanager
def answering(data: bytes) -> Iterator[Path]:
    """A socket at which these bytes are the answer to one question."""
    with short_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / CONTROL_SOCKET))
        listener.listen()

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(data)
                peer.shutdown(socket.SHUT_WR)
                # The client may send its body behind its head: closed before, its connection would break.
                while peer.recv(65536):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        yield folder
        thread.join()


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_the_answer_comes_with_its_status() -> None:
    with answering(http(b'{"ready": false}', "503 Service Unavailable")) as folder:
        assert ask(folder, "/readyz") == JsonAnswer(503, {"ready": False})


def test_what_is_no_object_says_nothing() -> None:
    with answering(http(b"[1]")) as folder:
        assert ask(folder, "/status") == JsonAnswer(200, {})


@pytest.mark.parametrize("data", [b"", b"sesame\r\n\r\n", http(b"{")], ids=["none", "no-http", "no-json"])
def test_what_is_no_answer_is_an_error_without_its_words(data: bytes) -> None:
    with answering(data) as folder, pytest.raises(GatewayError) as caught:
        ask(folder, "/status")
    assert "sesame" not in caught.value.message + caught.value.hint


def test_nobody_there_is_an_error() -> None:
    with short_folder() as folder, pytest.raises(GatewayError, match="no proxy is running"):
        ask(folder, "/status")


def test_many_clients_leave_the_operator_a_place() -> None:
    """The socket of the proxy has 32 places; a question that waits here takes none of them."""
    waiting, most, go = [0], [0], threading.Event()
    changed = threading.Condition()

    def talk(peer: socket.socket) -> None:
        with peer:
            peer.recv(65536)
            with changed:
                waiting[0] += 1
                most[0] = max(most[0], waiting[0])
                changed.notify_all()
            go.wait(30)
            with changed:
                waiting[0] -= 1
            peer.sendall(http(b"{}"))

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],)).start()

    with short_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / CONTROL_SOCKET))
        listener.listen(64)
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        about = FleetInfo(kind="fake", runtime_dir=folder)
        asking = [threading.Thread(target=ask_fleet_proxy, args=(about, "GET", "/x")) for _ in range(40)]
        for thread in asking:
            thread.start()
        with changed:
            assert changed.wait_for(lambda: waiting[0] == MAX_QUESTIONS, 30)
        go.set()
        for thread in asking:
            thread.join(30)
        listener.shutdown(socket.SHUT_RDWR)
    assert most[0] == MAX_QUESTIONS
