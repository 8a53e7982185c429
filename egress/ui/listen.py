"""Where the page listens: a port of this machine, or a unix socket that only its owner may open.

Nothing of a request is logged: an address can hold the token.
"""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from egress.errors import UnreadableError
from egress.unix.stream_socket import connect, listen

MAX_CONNECTIONS = 64
"""Conversations at a time."""
IDLE_TIMEOUT = 10
"""Seconds for a whole question, and between an answer and the next question."""
MAX_REQUEST_BYTES = 1024 * 1024
"""Bytes of a question. Browsers send the cookies of every port of a name, up to 180 of 4 kB."""


def listen_on_port(host: str, number: int) -> socket.socket:
    """A listening TCP socket; 0 takes any free port. Raises `UnreadableError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, number))
        sock.listen(MAX_CONNECTIONS)
    except (OSError, OverflowError) as error:
        sock.close()
        hint = "give another one with --listen, or `--listen 127.0.0.1:0` for any that is free"
        raise UnreadableError(f"the page cannot listen there: {_reason(error)}", hint) from None
    return sock


def listen_on_socket(path: Path) -> socket.socket:
    """A listening unix socket, mode 0600, in place of one that nobody serves. Raises `UnreadableError`."""
    try:
        _clear(path)
        return listen(path, MAX_CONNECTIONS)
    except OSError as error:
        hint = "name another one with --socket"
        raise UnreadableError(f"the socket {path} cannot be made: {_reason(error)}", hint) from None


def _clear(path: Path) -> None:
    """Take away a socket that is left over; anything else stays, and binding says so."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
        try:
            connect(path, None).close()
        except ConnectionRefusedError:
            path.unlink()


def config(app: ASGIApp, patience: int = IDLE_TIMEOUT) -> uvicorn.Config:
    """How it is served: without a log of requests, and bounded."""
    return uvicorn.Config(
        app,
        http=PageConnection,
        ws="none",
        loop="asyncio",
        access_log=False,
        log_config=None,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=patience,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=MAX_REQUEST_BYTES,
    )


def serve(app: ASGIApp, sock: socket.socket) -> None:
    """Serve until told to stop."""
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config(app)).run(sockets=[sock])


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else str(error)
    return (text or type(error).__name__).lower()


# How long a connection to the page may say nothing, so that silence keeps nobody out.
#
# Any program of this machine may connect, and only so many are served at a time. Who has asked nothing whole
# in good time is cut off. When there is no room left, the oldest that waits for nothing but its own other
# side
# makes way, and before all others one that never asked anything.
class PageConnection(H11Protocol):
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

    def _others(self) -> Iterator[PageConnection]:
        return (each for each in self.connections if isinstance(each, PageConnection) and each is not self)

    def _wind(self) -> None:
        self._clock = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
