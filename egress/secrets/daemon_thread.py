"""Run blocking work in a thread that never delays the end of the process.

Not in the executor of the loop: name resolution shares it, and a few hanging sources would fill it. Not in a
pool either: at most one fetch runs per source. The threads are daemons, so a hanging file system does not
keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial


async def run_in_thread[T](work: Callable[[], T]) -> T:
    """Return the result of `work`, or raise its exception. A cancelled caller leaves the work running."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(tell: Callable[[], None]) -> None:
        if not future.cancelled():
            tell()

    def body() -> None:
        tell: Callable[[], None]
        try:
            tell = partial(future.set_result, work())
        except Exception as error:  # noqa: BLE001 - carried to the caller
            tell = partial(future.set_exception, error)
        # The loop may be closed by now; the result is lost then, and needed by no task.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, tell)

    threading.Thread(target=body, name="egress-secret", daemon=True).start()
    return await future
