"""One request and one short text, on a TCP port that is no door of a sandbox. The caller bounds the time."""

from __future__ import annotations

import asyncio
import socket
from http import HTTPStatus
from typing import Final

from egress.http1 import End, MessageLimits, RequestHead, RequestReader

PLAIN_TEXT: Final = "text/plain; charset=utf-8"
_LIMITS: Final = MessageLimits(head=8 * 1024, target=201)
_READ_SIZE: Final = 16 * 1024


async def read_request(sock: socket.socket) -> RequestHead | None:
    """Read one request; None where the client hangs up before its end. Raises `WireError`."""
    loop = asyncio.get_running_loop()
    reader = RequestReader(_LIMITS)
    head: RequestHead | None = None
    while data := await loop.sock_recv(sock, _READ_SIZE):
        for event in reader.feed(data):
            if isinstance(event, RequestHead):
                head = event
                # A request with a body is refused at once: nobody waits for the body.
                if not head.framing.is_empty:
                    return head
            elif isinstance(event, End):
                return head
    return None


async def read_to_end(sock: socket.socket) -> None:
    """End our side, and let the client read: closed on unread bytes, the connection would be reset."""
    sock.shutdown(socket.SHUT_WR)
    left = _READ_SIZE
    while left > 0 and (data := await asyncio.get_running_loop().sock_recv(sock, left)):
        left -= len(data)


def encode_text(status: int, text: str, content_type: str = PLAIN_TEXT) -> bytes:
    """Return a whole response; only a success has another type than plain text."""
    body = text.encode()
    kind = content_type if status == HTTPStatus.OK else PLAIN_TEXT
    more = {401: "www-authenticate: Bearer\r\n", 405: "allow: GET\r\n"}.get(status, "")
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        f"content-type: {kind}\r\n"
        f"content-length: {len(body)}\r\n"
        "cache-control: no-store\r\n"
        f"{more}"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body
