"""Both ends of a WebSocket on a channel, with wsproto: an echo that shows its credential, and a client."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.utilities import generate_accept_token

from tests.proxy.lab.channel import Channel
from tests.proxy.lab.http1 import Response, read_head
from tests.proxy.lab.upstream_request import UpstreamRequest

NONCE = base64.b64encode(b"sixteen bytes ok").decode("ascii")


async def serve_websocket(visit: UpstreamRequest) -> None:
    """Echo messages and close; begins with a ping that carries the credential.

    The text message "close" is answered by closing with the credential as the reason, "credential" by
    the credential as a message. `parts` sends each echo in so many frames.
    """
    key = visit.request.header("sec-websocket-key")
    if not key or (visit.request.header("upgrade") or "").lower() != "websocket":
        await visit.answer(b"ask for an upgrade\n", status="426 Upgrade Required")
        return
    visit.over = True
    accept = generate_accept_token(key.encode("ascii")).decode("ascii")
    lines = ["HTTP/1.1 101 Switching Protocols", "upgrade: websocket", "connection: Upgrade"]
    lines += [f"sec-websocket-accept: {accept}", f"x-echo: {visit.authorization}", "", ""]
    await visit.channel.send("\r\n".join(lines).encode("latin-1"))
    socket = Socket(visit.channel, Connection(ConnectionType.SERVER))
    token = visit.authorization.encode("latin-1")
    await socket.send(Ping(token[:125]))
    while (event := await socket.receive()) is not None:
        await _answer(socket, event, token, visit.number("parts", 1))


async def _answer(socket: Socket, event: Event, token: bytes, parts: int) -> None:
    # A message and the close behind it may come in one read, and after a close there is nobody to answer.
    if not isinstance(event, CloseConnection) and socket.protocol.state is not ConnectionState.OPEN:
        return
    match event:
        case CloseConnection(code, reason) if socket.protocol.state is ConnectionState.REMOTE_CLOSING:
            await socket.send(CloseConnection(code, reason))
        case TextMessage("close"):
            await socket.send(CloseConnection(1000, token.decode("latin-1")))
        case TextMessage("credential"):
            await socket.send(TextMessage(token.decode("latin-1")))
        case TextMessage(data):
            size = -(-len(data) // parts) or 1
            for at in range(0, max(1, len(data)), size):
                finished = at + size >= len(data)
                await socket.send(TextMessage(data[at : at + size], message_finished=finished))
        case BytesMessage(data):
            await socket.send(BytesMessage(bytes(data)))
        case _:
            pass


@dataclass(slots=True)
class Socket:
    """A WebSocket after its handshake; answers pings, joins the frames of a message."""

    channel: Channel
    protocol: Connection
    response: Response | None = None
    """The 101, on the client's side."""
    pings: list[bytes] = field(default_factory=list)
    closed: CloseConnection | None = None
    """How the peer closed; None when it did not."""
    _waiting: list[Event] = field(default_factory=list)
    _text: str = ""
    _bytes: bytearray = field(default_factory=bytearray)

    async def send(self, event: Event) -> None:
        await self.channel.send(self.protocol.send(event))

    async def receive(self) -> Event | None:
        """The next whole message, pong or close; None once the stream has ended."""
        while True:
            while self._waiting:
                if (event := await self._whole(self._waiting.pop(0))) is not None:
                    return event
            if self.protocol.state is ConnectionState.CLOSED:
                return None
            data = await self.channel.some()
            if not data:
                return None
            self.protocol.receive_data(data)
            self._waiting += self.protocol.events()

    async def _whole(self, event: Event) -> Event | None:
        """The event, or None while it is part of a message or has been dealt with."""
        if isinstance(event, Ping):
            self.pings.append(bytes(event.payload))
            await self.send(Pong(event.payload))
            return None
        if isinstance(event, CloseConnection):
            self.closed = event
        return self._joined(event) if isinstance(event, TextMessage | BytesMessage) else event

    def _joined(self, event: TextMessage | BytesMessage) -> Event | None:
        if isinstance(event, TextMessage):
            self._text += event.data
        else:
            self._bytes += event.data
        if not event.message_finished:
            return None
        text, data = self._text, bytes(self._bytes)
        self._text = ""
        self._bytes.clear()
        return TextMessage(text) if isinstance(event, TextMessage) else BytesMessage(data)


async def open_websocket(channel: Channel, host: str, target: str = "/ws", extra: str = "") -> Socket:
    """Ask for an upgrade; the response is in `.response` and may be a refusal."""
    head = (
        f"GET {target} HTTP/1.1\r\nhost: {host}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        f"sec-websocket-version: 13\r\nsec-websocket-key: {NONCE}\r\n{extra}\r\n"
    )
    await channel.send(head.encode("latin-1"))
    response = Response(*await read_head(channel))
    return Socket(channel, Connection(ConnectionType.CLIENT), response)
