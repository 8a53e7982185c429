"""A stream of messages as a socket: both directions, and their common end."""

from __future__ import annotations

import queue
import threading

from egress.api.websocket_as_socket import pair_with


class Stream:
    """A stream in memory."""

    def __init__(self) -> None:
        self.sent: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.coming: queue.SimpleQueue[str | bytes | None] = queue.SimpleQueue()

    def send_bytes(self, data: bytes) -> None:
        self.sent.put(data)

    def receive(self) -> str | bytes | None:
        return self.coming.get(timeout=30)

    def end(self) -> None:
        self.coming.put(None)


def test_bytes_go_both_ways() -> None:
    stream, forgotten = Stream(), threading.Event()
    with pair_with(stream, forgotten.set) as sock:
        sock.sendall(b"up")
        assert stream.sent.get(timeout=30) == b"up"
        stream.coming.put(b"down")
        stream.coming.put("\u00fc")
        sock.settimeout(30)
        assert sock.recv(4) == b"down"
        assert sock.recv(9) == "\u00fc".encode()
        assert not forgotten.is_set()
    assert forgotten.wait(30)


def test_the_end_of_the_stream_is_the_end_of_the_socket() -> None:
    stream, forgotten = Stream(), threading.Event()
    with pair_with(stream, forgotten.set) as sock:
        stream.coming.put(None)
        sock.settimeout(30)
        assert sock.recv(1) == b""
    assert forgotten.wait(30)
