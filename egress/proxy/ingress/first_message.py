"""Reading the first message of a client, bounded in bytes and time: a request head or a ClientHello.

What was read stays with the client for the lane to read again; only the head of a CONNECT, which is
for the door alone, is dropped. None means that the client left, which is nobody's fault.
"""

from __future__ import annotations

import asyncio
from typing import Final

from egress.errors import WireError
from egress.http1 import MessageLimits, RequestHead, RequestReader
from egress.proxy.ingress.pending_connection import IngressRefusal, PendingConnection
from egress.tls.client_hello import ClientHello, HelloReader

_TOKEN_BYTES: Final = frozenset(
    b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)


def begins_http(first: int) -> bool:
    """Tell whether a request can begin with this byte."""
    return first in _TOKEN_BYTES


async def read_first(pending: PendingConnection, within: float = 0.0) -> int | IngressRefusal | None:
    """Wait for the first byte, which tells what the client speaks; it stays with the client.

    `within` seconds, or the usual time.
    """
    try:
        return await pending.client.peek_first_byte(within or pending.bounds.first_byte)
    except TimeoutError:
        return IngressRefusal("request.timeout")


async def read_head(pending: PendingConnection) -> RequestHead | IngressRefusal | None:
    """Read a request head. From here on refusals are pages."""
    pending.speaks = "http"
    try:
        # A deadline for the head as a whole: a client that sends byte after byte cannot stretch it.
        async with asyncio.timeout(pending.bounds.head_time):
            pending.head = await _head(pending)
    except TimeoutError:
        return IngressRefusal("request.timeout")
    except WireError as error:
        return IngressRefusal("request.malformed", status=error.status)
    return pending.head


async def _head(pending: PendingConnection) -> RequestHead | None:
    client = pending.client
    reader = RequestReader(MessageLimits(head=pending.bounds.head))
    data = bytes(client.kept)
    while True:
        for event in reader.feed(data):
            if isinstance(event, RequestHead):
                # Bytes behind the head of a CONNECT belong to the tunnel.
                if event.method == "CONNECT":
                    client.kept[:] = reader.detach()
                return event
        data = await client.read_more()
        if not data:
            reader.eof()
            return None


async def read_hello(pending: PendingConnection) -> ClientHello | IngressRefusal | None:
    """Read a ClientHello. From here on refusals are alerts."""
    pending.speaks = "tls"
    try:
        async with asyncio.timeout(pending.bounds.hello_time):
            return await _hello(pending)
    except TimeoutError:
        return IngressRefusal("request.timeout")
    except WireError:
        return IngressRefusal("protocol.refused")


async def _hello(pending: PendingConnection) -> ClientHello | None:
    client = pending.client
    reader = HelloReader()
    data = bytes(client.kept)
    while True:
        hello = reader.feed(data)
        if hello is not None:
            return hello
        data = await client.read_more()
        if not data:
            raise WireError("The connection ends inside the ClientHello.")
