"""How long a connection to the page may say nothing, so that silence keeps nobody out.

Any program of this machine may connect, and only so many are served at a time. Who has asked nothing whole
in good time is cut off. When there is no room left, the oldest that waits for nothing but its own other side
makes way, and before all others one that never asked anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from uvicorn.protocols.http.h11_impl import H11Protocol


class Conversation(H11Protocol):
    """A connection. The clock of the server itself runs after an answer only, and any byte stops it."""

    begun = 0.0
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.begun = self.loop.time()
        self._make_room()
        self._wind()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.is_unasked:
            self._stop()
        elif self._clock is None:
            self._wind()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    @property
    def is_unasked(self) -> bool:
        """Whether nothing is to be answered. A part of a question is none."""
        # It is declared as if it were always there.
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]

    @property
    def is_gone(self) -> bool:
        """Whether it is closed, and has nothing left that somebody would have to read first."""
        return self.transport.is_closing() and not self.transport.get_write_buffer_size()

    def _make_room(self) -> None:
        # Who is gone, or made to go, is not counted any more, even if the loop has not come to say so yet.
        self.connections.difference_update([each for each in self._others() if each.is_gone])
        if self.limit_concurrency is None or len(self.connections) < self.limit_concurrency:
            return
        idle = [each for each in self._others() if each.is_unasked or each.flow.write_paused]
        if idle:
            oldest = min(idle, key=lambda each: (each.cycle is not None, each.begun))
            oldest.transport.abort()
            self.connections.discard(oldest)

    def _others(self) -> Iterator[Conversation]:
        return (each for each in self.connections if isinstance(each, Conversation) and each is not self)

    def _wind(self) -> None:
        self._clock = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
