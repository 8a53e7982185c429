"""Calls that take a while, answered as events: their progress, then their result or a problem.

The work is that of the plain call, and goes on if the client leaves, as there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse

from egress.api.schema import ProgressView
from egress.api_server.call import problem_from
from egress.api_server.command_events import EVENT_STREAM, event
from egress.api_server.exec_over_http import problem_event
from egress.runtime.stages import reporting_stages

PROGRESS_SECONDS: Final = 1.0
"""Seconds between two events of one stage."""

_WORKING: Final[set[asyncio.Future[msgspec.Struct | None]]] = set()
"""Work whose client may have left; the loop itself keeps no task alive."""


def progress_response(work: Callable[[], Awaitable[msgspec.Struct | None]]) -> Response:
    """Begin the work, and return an answer that tells of it."""
    return StreamingResponse(progress_events(work), media_type=EVENT_STREAM)


async def progress_events(work: Callable[[], Awaitable[msgspec.Struct | None]]) -> AsyncIterator[bytes]:
    """Yield `progress` for each stage and each second, then `result` or `problem`."""
    loop, began, changed = asyncio.get_running_loop(), time.monotonic(), asyncio.Event()
    stage = ""

    def note(text: str) -> None:
        nonlocal stage
        stage = text
        # The loop may have ended, and the work goes on.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(changed.set)

    async def run() -> msgspec.Struct | None:
        with reporting_stages(note):
            return await work()

    working = asyncio.ensure_future(run())
    _WORKING.add(working)
    working.add_done_callback(_end)
    while True:
        noticing = asyncio.ensure_future(changed.wait())
        await asyncio.wait({working, noticing}, timeout=PROGRESS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        noticing.cancel()
        changed.clear()
        if working.done():
            break
        yield event("progress", ProgressView(stage=stage, seconds=time.monotonic() - began))
    try:
        yield event("result", working.result())
    except Exception as error:  # noqa: BLE001 - the client waits for the last event, whatever it is
        yield problem_event(problem_from(error))


def _end(working: asyncio.Future[msgspec.Struct | None]) -> None:
    _WORKING.discard(working)
    if not working.cancelled():
        # Looked at, so that the loop does not log it when the client has left.
        working.exception()
