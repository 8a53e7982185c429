"""A stand-in for the streams of an API server: one WebSocket, whose server a test plays."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    RejectConnection,
    RejectData,
    Request,
)

from egress.cluster.api_server import ClusterApi
from tests.cluster.fake_api_server import AUTHORITY, TOKEN

type Play = Callable[[StreamPeer], object]


@dataclass
class StreamPeer:
    """The server's side, once it has accepted."""

    sock: ssl.SSLSocket
    protocol: str | None = None
    """The protocol that it answers with; None for the one that was asked for."""
    refusal: tuple[int, bytes] | None = None
    """What it answers instead."""
    request: Request | None = None
    received: list[bytes] = field(default_factory=list)
    part: bytes = b""
    """Of a message that has not come whole."""
    connection: WSConnection = field(default_factory=lambda: WSConnection(ConnectionType.SERVER))

    def accept(self) -> bool:
        while self.request is None:
            self.connection.receive_data(self.sock.recv(65536))
            self.request = next(
                (each for each in self.connection.events() if isinstance(each, Request)), None
            )
        if self.refusal is not None:
            status, body = self.refusal
            headers = [(b"content-length", str(len(body)).encode())]
            self.sock.sendall(
                self.connection.send(RejectConnection(status_code=status, headers=headers, has_body=True))
                + self.connection.send(RejectData(data=body))
            )
            return False
        if self.protocol:
            # Otherwise the library does not answer with a protocol that nobody asked for.
            self.request.subprotocols.append(self.protocol)
        wanted = next(iter(self.request.subprotocols), None)
        spoken = (wanted if self.protocol is None else self.protocol) or None
        self.sock.sendall(self.connection.send(AcceptConnection(subprotocol=spoken)))
        return True

    def send(self, *messages: bytes) -> None:
        for message in messages:
            self.sock.sendall(self.connection.send(BytesMessage(message)))

    def take(self) -> bytes | None:
        """The next message of the client; None once it is gone."""
        while not self.received:
            data = self.sock.recv(65536)
            if not data:
                return None
            self.connection.receive_data(data)
            for event in self.connection.events():
                if isinstance(event, BytesMessage):
                    self.part += event.data
                    if event.message_finished:
                        self.received.append(self.part)
                        self.part = b""
        return self.received.pop(0)

    def close(self) -> None:
        self.sock.sendall(self.connection.send(CloseConnection(code=1000)))


@contextmanager
def played(
    play: Play, *, protocol: str | None = None, refusal: tuple[int, bytes] | None = None
) -> Iterator[tuple[ClusterApi, list[StreamPeer]]]:
    """Serve one connection on loopback; the peer is in the list once it has connected."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    peers: list[StreamPeer] = []

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            plain, _ = listener.accept()
            with context.wrap_socket(plain, server_side=True) as sock:
                peers.append(peer := StreamPeer(sock, protocol, refusal))
                if peer.accept():
                    play(peer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        yield ClusterApi("127.0.0.1", port, "agents", AUTHORITY.cert_pem.bytes(), TOKEN.encode()), peers
        thread.join(10)
    assert not thread.is_alive()
