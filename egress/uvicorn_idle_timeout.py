"""An HTTP connection of uvicorn that must not stay silent: the review page and the API's port use it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedConnection(H11Protocol):
    """A connection with an idle timeout, so that silent connections cannot lock out everybody else.

    Any program may connect, and the number of connections is limited. A connection without a whole request in
    time is closed. At the limit the oldest idle connection is closed, first of all one that never
    sent a request. The timer of uvicorn is not enough: it runs only after a response, and any byte stops it.
    """

    begun = 0.0
    is_upgraded = False
    """True once the connection is a WebSocket, which may be silent for as long as it likes."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.begun = self.loop.time()
        self._make_room()
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_upgraded or not self.is_idle:
            self._stop_timer()
        elif self._timer is None:
            self._start_timer()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self.is_upgraded = True
        self._stop_timer()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """True without a whole request to answer. A partial request does not count."""
        # uvicorn declares `cycle` as always set, but it is None before the first request.
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]

    @property
    def is_gone(self) -> bool:
        """True if the connection is closed and has no bytes left to send."""
        return self.transport.is_closing() and not self.transport.get_write_buffer_size()

    def _make_room(self) -> None:
        # Closed connections no longer count, even before the event loop reports them as lost.
        self.connections.difference_update([each for each in self._others() if each.is_gone])
        if self.limit_concurrency is None or len(self.connections) < self.limit_concurrency:
            return
        idle = [each for each in self._others() if each.is_idle or each.flow.write_paused]
        if idle:
            oldest = min(idle, key=lambda each: (each.cycle is not None, each.begun))
            oldest.transport.abort()
            self.connections.discard(oldest)

    def _others(self) -> Iterator[TimedConnection]:
        return (each for each in self.connections if isinstance(each, TimedConnection) and each is not self)

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
