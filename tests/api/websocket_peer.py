"""A pair of sockets with a WebSocket of ours at one end, and a server that a test plays at the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event

from egress.api.endpoint import UnixEndpoint
from egress.api.websocket_client import WebSocketClient


class Peer:
    """The server's side of one WebSocket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.connection = WSConnection(ConnectionType.SERVER)

    def accept(self) -> None:
        self.connection.receive_data(self.sock.recv(65536))
        list(self.connection.events())
        self.send(AcceptConnection())

    def send(self, *events: Event) -> None:
        self.sock.sendall(b"".join(self.connection.send(event) for event in events))


@contextmanager
def pair() -> Iterator[tuple[WebSocketClient, Peer]]:
    """Both ends, before their handshake."""
    ours, theirs = socket.socketpair()
    client, peer = WebSocketClient(ours, UnixEndpoint(Path("/nowhere")), "/x"), Peer(theirs)
    try:
        yield client, peer
    finally:
        client.close()
        theirs.close()


@contextmanager
def opened() -> Iterator[tuple[WebSocketClient, Peer]]:
    """Both ends, after their handshake."""
    with pair() as (client, peer):
        accepting = threading.Thread(target=peer.accept)
        accepting.start()
        assert client.shake_hands() is None
        accepting.join(30)
        yield client, peer
