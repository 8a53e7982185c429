"""One task for each connection of a listener of the proxy's own: a bounded number at a time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine


class ConnectionTasks:
    """The running conversations; each closes its socket at its end."""

    def __init__(self, talk: Callable[[socket.socket], Coroutine[object, object, None]], limit: int) -> None:
        """`talk` holds one conversation; a connection beyond `limit` is closed unread."""
        self._talk = talk
        self._limit = limit
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, sock: socket.socket) -> None:
        """Begin one, and own its socket."""
        if len(self._tasks) >= self._limit:
            sock.close()
            return
        task = asyncio.get_running_loop().create_task(self._talk(sock))
        self._tasks.add(task)

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            # A task that is cancelled before it begins closes nothing itself.
            sock.close()

        task.add_done_callback(end)

    async def close(self) -> None:
        """End all of them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
