"""Keeps the client of the bridge from taking the content of a file for a stream of events.

The client decodes every answer that begins like an event with JSON. A file may begin so too, such as the
record of a model's answer. Such a file is sent as the events that the client decodes to its content.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response, StreamingResponse

from egress.api_server.command_events import EVENT_STREAM
from egress.api_server.files import OCTET_STREAM

EVENT_PREFIX: Final = b"data: {"
_METADATA_EVENT: Final = b'data: {"type":"metadata","isBinary":true}\n\n'
_COMPLETE_EVENT: Final = b'data: {"type":"complete"}\n\n'


async def file_response(pieces: AsyncIterator[bytes], size: int) -> Response:
    """Return a file in the form in which the client gets its content."""
    begin = b""
    while len(begin) < len(EVENT_PREFIX) and (piece := await anext(pieces, b"")):
        begin += piece
    if begin.startswith(EVENT_PREFIX):
        return StreamingResponse(_as_events(begin, pieces), media_type=EVENT_STREAM)
    headers = {"content-length": str(size)}
    return StreamingResponse(_with_begin(begin, pieces), headers=headers, media_type=OCTET_STREAM)


async def _with_begin(begin: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begin
    async for piece in pieces:
        yield piece


async def _as_events(begin: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield _METADATA_EVENT
    async for piece in _with_begin(begin, pieces):
        yield b'data: {"type":"chunk","data":"%s"}\n\n' % base64.b64encode(piece)
    yield _COMPLETE_EVENT
