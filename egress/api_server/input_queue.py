"""Input of a WebSocket on its way to a program: bounded, and acknowledged message by message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from egress.api_server.call import UnfitRequestError

MAX_WAITING_INPUT: Final = 16
"""Messages of input that a client may send ahead of their acknowledgement."""


class InputQueue:
    """Messages that a client has sent, and that the program has not taken yet."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_WAITING_INPUT)

    def add(self, data: bytes | None) -> None:
        """Add a message; None is the end. Raises `UnfitRequestError` if too many wait."""
        # Never waited for: the end of the connection, too, is heard only by somebody who listens.
        try:
            self._queue.put_nowait(data)
        except asyncio.QueueFull:
            raise UnfitRequestError(
                f"more than {MAX_WAITING_INPUT} messages of input wait for the command",
                "wait for `taken` after each",
            ) from None

    async def feed(
        self, write: Callable[[bytes], Awaitable[object]], taken: Callable[[], Awaitable[object]]
    ) -> None:
        """Pass messages on, one at a time, until the end; call `taken` after each."""
        while (data := await self._queue.get()) is not None:
            await write(data)
            await taken()
