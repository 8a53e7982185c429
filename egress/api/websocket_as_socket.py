"""A stream of messages as a socket of this process.

The caller gets one end of a pair of sockets, and two threads carry bytes between the other end and the
stream. Both directions end together: a WebSocket cannot close one of them.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from egress.api.schema import MAX_PIECE_BYTES


class ByteStream(Protocol):
    """A stream of messages, such as a WebSocket."""

    def send_bytes(self, data: bytes) -> None:
        """Send bytes. Raises `OSError` once the stream has ended."""

    def receive(self) -> str | bytes | None:
        """Return the next bytes; None at the end. Raises `OSError`."""

    def end(self) -> None:
        """Shut the stream down, so that the thread that receives returns."""


def pair_with(stream: ByteStream, forget: Callable[[], object]) -> socket.socket:
    """Return a socket whose bytes go over this stream; `forget` is called at its end."""
    ours, theirs = socket.socketpair()
    threading.Thread(
        target=_carry_down, args=(stream, ours, forget), name="egress-paired-socket", daemon=True
    ).start()
    threading.Thread(target=_carry_up, args=(stream, ours), name="egress-paired-socket", daemon=True).start()
    return theirs


def _carry_up(stream: ByteStream, sock: socket.socket) -> None:
    with suppress(OSError):
        while data := sock.recv(MAX_PIECE_BYTES):
            stream.send_bytes(data)
    # The other thread learns it from the end of the stream, and closes.
    stream.end()


def _carry_down(stream: ByteStream, sock: socket.socket, forget: Callable[[], object]) -> None:
    with suppress(OSError):
        while data := stream.receive():
            sock.sendall(data if isinstance(data, bytes) else data.encode())
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
    forget()
