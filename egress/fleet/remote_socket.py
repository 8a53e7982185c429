"""A connection to a port of a sandbox behind the API, as a socket of this process.

A WebSocket carries the bytes. The caller gets one end of a pair of sockets, and two threads carry bytes
between the other end and the WebSocket. Both directions end together: a WebSocket cannot close one of them.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from egress.api.schema import MAX_PIECE_BYTES
from egress.api.websocket_client import WebSocketClient


def open_remote_socket(stream: WebSocketClient, forget: Callable[[], object]) -> socket.socket:
    """Return a socket whose bytes go over this stream; `forget` is called at its end."""
    ours, theirs = socket.socketpair()
    threading.Thread(
        target=_carry_down, args=(stream, ours, forget), name="egress-remote-port", daemon=True
    ).start()
    threading.Thread(target=_carry_up, args=(stream, ours), name="egress-remote-port", daemon=True).start()
    return theirs


def _carry_up(stream: WebSocketClient, sock: socket.socket) -> None:
    with suppress(OSError):
        while data := sock.recv(MAX_PIECE_BYTES):
            stream.send_bytes(data)
    # The other thread learns it from the end of the stream, and closes.
    stream.end()


def _carry_down(stream: WebSocketClient, sock: socket.socket, forget: Callable[[], object]) -> None:
    with suppress(OSError):
        while data := stream.receive():
            sock.sendall(data if isinstance(data, bytes) else data.encode())
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
    forget()
