"""Server-sent events from an iterator that blocks: one item at a time, until the client leaves.

A client that reads slowly slows the iterator, and nothing piles up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

from egress.api_server.call import ApiContext, problem_from
from egress.api_server.exec_over_http import problem_event
from egress.api_server.sandbox_events import PULSE_INTERVAL


async def iterated_events[T](
    context: ApiContext,
    name: str,
    items: Iterator[T],
    encoded: Callable[[T], bytes],
    close: Callable[[], object],
) -> AsyncIterator[bytes]:
    """Yield the items as events; `close` ends the iterator, also one that is waited for."""
    coming: asyncio.Future[T | None] | None = None
    try:
        # The first line at once: a client waits for the head of the answer before it acts.
        yield b": %s\n\n" % name.encode()
        while True:
            coming = coming or asyncio.ensure_future(context.waiting(_next, items))
            await asyncio.wait({coming}, timeout=PULSE_INTERVAL)
            if not coming.done():
                yield b": alive\n\n"
                continue
            item = coming.result()
            if item is None:
                return
            coming = None
            yield encoded(item)
    except Exception as error:  # noqa: BLE001 - the client waits for the last event, whatever it is
        yield problem_event(problem_from(error))
    finally:
        if coming is not None:
            coming.cancel()
        await asyncio.shield(asyncio.ensure_future(context.in_thread(close)))


def _next[T](items: Iterator[T]) -> T | None:
    return next(items, None)
