"""Events of sandboxes as server-sent events, until the client leaves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from egress.api.schema import SandboxEventView
from egress.api_server.call import ApiCall
from egress.api_server.command_events import EVENT_STREAM, event
from egress.runtime.spec import Event

MAX_WAITING_EVENTS: Final = 10_000
"""Events that wait for a client; one that is further behind is dropped."""
PULSE_INTERVAL: Final = 15.0
"""Seconds between two lines that show a client that the connection lives."""


async def follow_events(call: ApiCall, _: Request) -> Response:
    """Follow the events of all sandboxes."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    subscription = call.fleet.subscribe()

    def add(found: Event | None) -> None:
        # A client that does not read is told the end in place of what it missed.
        if found is not None and queue.qsize() >= MAX_WAITING_EVENTS:
            subscription.close()
        else:
            queue.put_nowait(found)

    def tell(found: Event | None) -> None:
        # A loop that has ended has no client any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(add, found)

    def read() -> None:
        for each in subscription:
            tell(each)
        tell(None)

    threading.Thread(target=read, name="egress-api-events", daemon=True).start()

    async def lines() -> AsyncIterator[bytes]:
        try:
            # The first line at once: a client waits for the head of the answer before it acts.
            yield b": events\n\n"
            while True:
                try:
                    found = await asyncio.wait_for(queue.get(), PULSE_INTERVAL)
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                if found is None:
                    return
                yield event("sandbox", SandboxEventView(kind=found.kind, sandbox=found.sandbox))
        finally:
            subscription.close()

    return StreamingResponse(lines(), media_type=EVENT_STREAM)
