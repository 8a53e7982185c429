"""Changes below a path as server-sent events, until the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from egress.api.schema import ChangeView, WatchQuery
from egress.api_server.call import ApiCall, json_text, problem_from
from egress.api_server.command_events import EVENT_STREAM, event
from egress.api_server.events import PULSE_INTERVAL
from egress.api_server.exec_call import problem_event
from egress.sandbox.files import Files
from egress.sandbox.watch import Change


async def watch_path(call: ApiCall, _: Request) -> Response:
    """Watch a path. The answer begins once the watch has, so no later change is missed."""
    query: WatchQuery = call.query
    watch = ExitStack()

    def begin() -> Iterator[Change]:
        return watch.enter_context(Files(call.place).watch(query.path, interval=query.interval))

    changes = await call.context.waiting(begin)
    return StreamingResponse(_events(call, watch, changes), media_type=EVENT_STREAM)


async def _events(call: ApiCall, watch: ExitStack, changes: Iterator[Change]) -> AsyncIterator[bytes]:
    # One change at a time: the list of a slow client is compared later, and nothing piles up.
    coming: asyncio.Future[Change | None] | None = None
    try:
        # The first line at once: a client waits for the head of the answer before it acts.
        yield b": watching\n\n"
        while True:
            coming = coming or asyncio.ensure_future(call.context.waiting(_next, changes))
            await asyncio.wait({coming}, timeout=PULSE_INTERVAL)
            if not coming.done():
                yield b": alive\n\n"
                continue
            change = coming.result()
            if change is None:
                return
            coming = None
            yield event("change", ChangeView(kind=change.kind, path=json_text(change.path)))
    except Exception as error:  # noqa: BLE001 - the client waits for the last event, whatever it is
        yield problem_event(problem_from(error))
    finally:
        if coming is not None:
            coming.cancel()
        await asyncio.shield(asyncio.ensure_future(call.context.in_thread(watch.close)))


def _next(changes: Iterator[Change]) -> Change | None:
    return next(changes, None)
