"""What the naive proxy makes of HTTP/2: what stands in the fields becomes text, and bodies go behind it.

It takes requests without looking at them, keeps whole bodies in memory, and frames nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from h2.exceptions import ProtocolError

from tests.proxy.lab.channel import Channel, EndedError
from tests.proxy.lab.client import Peer
from tests.proxy.lab.frames import Conversation, Stream
from tests.proxy.lab.http1 import Fields

Dial = Callable[[], Awaitable[Channel]]
Inject = Callable[[bytes, str], bytes]

_OF_THE_CONNECTION = {"connection", "transfer-encoding", "keep-alive", "upgrade"}


async def serve(client: Channel, target: str, dial: Dial, inject: Inject) -> None:
    """Answer every stream of a connection, each over a connection of its own."""
    tasks: set[asyncio.Task[None]] = set()

    def arrived(stream: Stream) -> None:
        task = asyncio.ensure_future(_answer(conversation, stream, target, dial, inject))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    conversation = Conversation(client, is_client=False, arrived=arrived, keep=1 << 40)
    await conversation.begin()
    try:
        await conversation.finished()
    finally:
        await asyncio.gather(*tasks, return_exceptions=True)
        await conversation.drop()


async def _answer(one: Conversation, stream: Stream, target: str, dial: Dial, inject: Inject) -> None:
    with suppress(OSError, EndedError, ProtocolError):
        await one.whole(stream)
        async with await dial() as upstream:
            fields, body, trailers = await (_over_2 if upstream.alpn == "h2" else _over_1)(
                upstream, stream, target, inject
            )
        await one.headers(stream, fields, end=not (body or trailers))
        if body:
            await one.data(stream, body, end=not trailers)
        if trailers:
            await one.headers(stream, trailers, end=True)


def _head(stream: Stream, target: str) -> bytes:
    named = dict(stream.fields)
    lines = [f"{named.get(':method', 'GET')} {named.get(':path', '/')} HTTP/1.1"]
    lines.append(f"host: {named.get(':authority', target)}")
    lines += [f"{name}: {text}" for name, text in stream.fields if not name.startswith(":")]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _over_1(
    upstream: Channel, stream: Stream, target: str, inject: Inject
) -> tuple[Fields, bytes, Fields]:
    await upstream.send(inject(_head(stream, target), target) + bytes(stream.body))
    response = await Peer(upstream).response(stream.header(":method") or "GET")
    fields = [(":status", str(response.status))]
    fields += [pair for pair in response.fields if pair[0] not in _OF_THE_CONNECTION]
    return tuple(fields), response.body, response.trailers


async def _over_2(
    upstream: Channel, stream: Stream, target: str, inject: Inject
) -> tuple[Fields, bytes, Fields]:
    other = Conversation(upstream, is_client=True, keep=1 << 40)
    await other.begin()
    injected = inject(_head(stream, target), target).decode("latin-1").split("\r\n")[1]
    name, _, text = injected.partition(": ")
    fields = (*stream.fields, (name.lower(), text)) if name.lower() != "host" else stream.fields
    mine = Stream(other.h2.get_next_available_stream_id())
    await other.headers(mine, fields, end=not stream.body)
    if stream.body:
        await other.data(mine, bytes(stream.body), end=True)
    await other.whole(mine)
    await other.close()
    return mine.fields, bytes(mine.body), mine.trailers
