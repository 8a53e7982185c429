"""Every file arrives as it is, also one that looks like events, as the client decodes them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import StreamingResponse

from egress.api_server.bridge_file_response import EVENT_PREFIX, file_response


async def pieces_of(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def body_of(parts: list[bytes]) -> tuple[bytes, bool]:
    """The body for a file in these pieces, and whether its length is told."""
    response = await file_response(pieces_of(parts), sum(map(len, parts)))
    assert isinstance(response, StreamingResponse)
    body = b"".join([bytes(piece) async for piece in response.body_iterator])  # type: ignore[arg-type]
    return body, "content-length" in response.headers


def decoded(body: bytes) -> bytes:
    """The content as the client takes it."""
    if not body.startswith(EVENT_PREFIX):
        return body
    events = [json.loads(line.removeprefix("data: ")) for line in body.decode().strip().split("\n\n")]
    assert events[0] == {"type": "metadata", "isBinary": True}
    assert events[-1] == {"type": "complete"}
    assert all(event["type"] == "chunk" for event in events[1:-1])
    return b"".join(base64.b64decode(event["data"]) for event in events[1:-1])


@given(st.booleans(), st.lists(st.binary(max_size=20)))
def test_the_client_gets_the_content(is_like_events: bool, parts: list[bytes]) -> None:
    prefix = [EVENT_PREFIX[:3], EVENT_PREFIX[3:]] if is_like_events else []
    whole = [*prefix, *filter(None, parts)]
    body, has_length = asyncio.run(body_of(whole))
    assert decoded(body) == b"".join(whole)
    assert has_length == (not b"".join(whole).startswith(EVENT_PREFIX))
