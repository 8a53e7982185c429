"""A WebSocket from the client's side: messages in and out over a blocking socket.

One thread receives and any thread sends. Extensions are not offered. A message longer than the limit, and a
server that breaks the protocol, end the connection.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Message,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from egress.api.schema import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from egress.api.endpoint import ApiEndpoint

_READ_BYTES: Final = 256 * 1024
_MAX_REFUSAL_BYTES: Final = 64 * 1024


class WebSocketLostError(OSError):
    """The connection ended. Callers translate it."""


class WebSocketClient:
    """One WebSocket, from its handshake to `close`."""

    def __init__(
        self, sock: socket.socket, endpoint: ApiEndpoint, target: str, subprotocol: str = ""
    ) -> None:
        """`subprotocol` is one that the server has to speak; empty for none."""
        self._sock = sock
        self._subprotocols = [subprotocol] if subprotocol else []
        self._endpoint = endpoint
        self._target = target
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._sending = threading.Lock()
        self._events: deque[Event] = deque()
        self._parts: list[str | bytes] = []
        self._size = 0

    def shake_hands(self) -> tuple[int, bytes] | None:
        """Return None once the server has accepted; its status and answer where it refused.

        Raises `WebSocketLostError`.
        """
        extra = [(name.encode(), value.encode()) for name, value in self._endpoint.headers]
        asked = Request(
            host=self._endpoint.host,
            target=self._target,
            extra_headers=extra,
            subprotocols=self._subprotocols,
        )
        self._send(asked)
        # A refusal comes in parts: its status first, its body with the events behind it.
        status, body = 0, b""
        while True:
            match self._next():
                case AcceptConnection(subprotocol=spoken):
                    if (spoken or "") != "".join(self._subprotocols):
                        raise WebSocketLostError("the server speaks another protocol")
                    return None
                case RejectConnection(status_code=code, has_body=has_body):
                    status = code
                    if not has_body:
                        return status, body
                case RejectData(data=data, body_finished=is_whole):
                    body += data
                    if is_whole or len(body) > _MAX_REFUSAL_BYTES:
                        return status, body
                case None:
                    if status:
                        return status, body
                    raise WebSocketLostError("the server closed the connection")
                case _:
                    raise WebSocketLostError("the server broke the protocol")

    def send_text(self, data: bytes) -> None:
        """Send a text message of UTF-8 bytes. Raises `WebSocketLostError`."""
        self._send(Message(data=data.decode()))

    def send_bytes(self, data: bytes) -> None:
        """Send a binary message. Raises `WebSocketLostError`."""
        self._send(Message(data=data))

    def receive(self) -> str | bytes | None:
        """Return the next message; None once the server has closed. Raises `WebSocketLostError`."""
        while True:
            event = self._next()
            if event is None or isinstance(event, CloseConnection):
                return None
            if isinstance(event, TextMessage | BytesMessage):
                whole = self._add(event)
                if whole is not None:
                    return whole

    def end(self) -> None:
        """Shut the connection down, so that the thread that receives returns."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection. The server learns it from the end of the socket."""
        self.end()
        self._sock.close()

    # Internals

    def _add(self, event: TextMessage | BytesMessage) -> str | bytes | None:
        """Add a part of a message; returns the message if that was its last part."""
        part = event.data if isinstance(event, TextMessage) else bytes(event.data)
        self._parts.append(part)
        self._size += len(part)
        if self._size > MAX_MESSAGE_BYTES:
            raise WebSocketLostError("the server sent a message that is too long")
        if not event.message_finished:
            return None
        parts, self._parts, self._size = self._parts, [], 0
        # All parts of one message are of one kind.
        if isinstance(event, TextMessage):
            return "".join(each for each in parts if isinstance(each, str))
        return b"".join(each for each in parts if isinstance(each, bytes))

    def _send(self, event: Event) -> None:
        try:
            # Under the lock: frames of two threads must not mix.
            with self._sending:
                self._sock.sendall(self._connection.send(event))
        except (OSError, LocalProtocolError):
            raise WebSocketLostError("the connection ended") from None

    def _next(self) -> Event | None:
        while not self._events:
            try:
                data = self._sock.recv(_READ_BYTES)
            except OSError:
                raise WebSocketLostError("the connection ended") from None
            if not data:
                return None
            self._feed(data)
        return self._events.popleft()

    def _feed(self, data: bytes) -> None:
        try:
            with self._sending:
                self._connection.receive_data(data)
                found = list(self._connection.events())
        except (RemoteProtocolError, LocalProtocolError):
            # The second one is raised for bytes that come after the server has closed.
            raise WebSocketLostError("the server broke the protocol") from None
        for event in found:
            if isinstance(event, Ping):
                self._send(event.response())
            else:
                self._events.append(event)
