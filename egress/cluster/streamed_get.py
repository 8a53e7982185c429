"""One GET to the API server: the body comes piece by piece, since a watch has no end.

The strict codec of the proxy reads the response. Each request has a connection of its own: a watch keeps it
for half a minute, and a list is rare.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from egress.cluster.api_call import ApiRefusedError
from egress.cluster.api_server import ClusterApi
from egress.cluster.request_head import request_head
from egress.http1 import Data, End, ResponseHead, ResponseReader

READ_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class ApiTimeouts:
    """Seconds that the API server has."""

    connect: float = 10.0
    silence: float = 40.0
    """Longer than a watch lasts, so that a connection that was cut without a word is noticed."""


@asynccontextmanager
async def get(api: ClusterApi, path: str, timeouts: ApiTimeouts) -> AsyncIterator[AsyncIterator[bytes]]:
    """Send a GET and give the pieces of its body.

    Raises `ApiRefusedError` for an answer that is no success, `OSError` (also `TimeoutError`) for a
    connection that fails, and `WireError` for bytes that are no HTTP.
    """
    async with asyncio.timeout(timeouts.connect):
        reader, writer = await asyncio.open_connection(
            api.host, api.port, ssl=api.context(), server_hostname=api.tls_name, limit=READ_BYTES
        )
    try:
        writer.write(request_head(api, "GET", path))
        async with asyncio.timeout(timeouts.silence):
            await writer.drain()
        response = ResponseReader()
        response.expect("GET")
        async with aclosing(_body(reader, response, path, timeouts.silence)) as body:
            yield body
    finally:
        # Nothing is left to send, and a server that does not close would keep this task.
        writer.transport.abort()


async def _body(
    reader: asyncio.StreamReader, response: ResponseReader, path: str, silence: float
) -> AsyncGenerator[bytes]:
    while True:
        async with asyncio.timeout(silence):
            data = await reader.read(READ_BYTES)
        # Without more bytes the message must be complete, or a cut list would be taken for a whole one.
        for event in response.feed(data) if data else response.eof():
            if isinstance(event, ResponseHead) and event.status != 200:
                raise ApiRefusedError(
                    f"the API server answers {event.status} to {path.partition('?')[0]}",
                    "give the service account the verbs get, list and watch there",
                    event.status,
                    "",
                )
            if isinstance(event, Data):
                yield bytes(event.data)
            if isinstance(event, End):
                return
