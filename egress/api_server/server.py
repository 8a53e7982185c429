"""Serves the API of a fleet at the unix socket of its owner.

The socket has mode 0600 in a folder of mode 0700, and the kernel is asked for the peer's user: only the
fleet's user and root are served. No sandbox gets the folder, so no sandbox reaches the socket.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, override

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto.events import Ping
from wsproto.events import Request as WebSocketRequest

from egress.api.schema import MAX_MESSAGE_BYTES
from egress.api_server.app import make_app
from egress.api_server.call import ApiContext
from egress.errors import reason_of
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.fleet import Fleet
from egress.fleet.folders import SOCKET_NAME, own_folder
from egress.unix.peer import is_own_user
from egress.unix.socket_folder import lock_file
from egress.unix.stream_socket import listen

_LOCK_NAME: Final = "sandboxes.lock"
_BACKLOG: Final = 256
_MAX_CONNECTIONS: Final = 4096
_KEEP_ALIVE_SECONDS: Final = 60
_MAX_HEAD_BYTES: Final = 64 * 1024
_CLOSING_ROUNDS: Final = 20
_HANDSHAKE_SECONDS: Final = 10.0


def _ignore_end() -> None:
    """Default callback: no one waits for the request."""


class ApiServer:
    """The listening socket and the thread that serves it, from their creation to `close`."""

    def __init__(self, fleet: Fleet, folder: Path, on_end: Callable[[], object] = _ignore_end) -> None:
        """Listen. `on_end` is called when a client asks for the end of the fleet.

        Raises `FleetUnavailableError` if that is impossible, or another process serves this folder.
        """
        self.path = own_folder(folder) / SOCKET_NAME
        held = lock_file(folder / _LOCK_NAME)
        if held is None:
            raise FleetUnavailableError(
                f"another process serves sandboxes in {folder}",
                "connect to it, or stop it with `egress down`",
            )
        # The lock comes before the socket: its holder may replace the socket of an ended process.
        self._held = held
        try:
            listener = listen(self.path, _BACKLOG, is_ours=True)
        except OSError as error:
            os.close(self._held)
            raise FleetUnavailableError(
                f"cannot create the socket {self.path}: {reason_of(error)}", "choose another runtime folder"
            ) from None
        context = ApiContext(fleet, on_end, is_owner_only=True)
        self._serving = ServingThread(server_config(make_app(context), OwnerConnection), listener)
        self._is_closed = False

    def close(self) -> None:
        """Close all connections. The fleet itself stays open."""
        if self._is_closed:
            return
        self._is_closed = True
        self.path.unlink(missing_ok=True)
        self._serving.close()
        os.close(self._held)


def server_config(app: ASGIApp, connection: type[H11Protocol]) -> uvicorn.Config:
    """Return the settings of a server: limits, and no log of requests, whose queries can name paths."""
    return uvicorn.Config(
        app,
        http=connection,
        ws=BoundedWebSocket,
        loop="asyncio",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="critical",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        # A client that is slow to read, and so to answer, must not lose its command for it.
        ws_ping_interval=None,
    )


class OwnerConnection(H11Protocol):
    """A connection of the user that the server belongs to, or of root."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        sock: socket.socket | None = transport.get_extra_info("socket")
        try:
            is_own = sock is not None and is_own_user(sock)
        except OSError:
            is_own = False
        if not is_own:
            transport.abort()


class BoundedWebSocket(WSProtocol):
    """A WebSocket that keeps no answers to pings for a client that does not read them.

    Handlers are told by the state of their scope, `has_left`, whether the client has closed its side. While
    nobody takes its messages the connection is not read, so that its end is not seen otherwise.
    """

    @override
    def handle_connect(self, event: WebSocketRequest) -> None:
        super().handle_connect(event)
        # A request that is refused has no scope; the handler begins after this.
        if hasattr(self, "scope"):
            self.scope["state"]["has_left"] = self._has_left

    def _has_left(self) -> bool:
        sock: socket.socket | None = self.transport.get_extra_info("socket")
        if sock is None or self.transport.is_closing():
            return True
        look = select.poll()
        look.register(sock, select.POLLRDHUP)
        return bool(look.poll(0))

    @override
    def handle_ping(self, event: Ping) -> None:
        # One answer is as good as many, and those to a slow client would fill the memory.
        if self.writable.is_set():
            super().handle_ping(event)


class ServingThread(uvicorn.Server):
    """A server in a thread, which ends at once when it is closed."""

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, tls: ssl.SSLContext | None = None
    ) -> None:
        """Serve; returns when requests are accepted."""
        super().__init__(config)
        self._listener = listener
        self._tls = tls
        self._began = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="egress-api", daemon=True)
        self._thread.start()
        self._began.wait()

    def close(self) -> None:
        """End the connections and the thread."""
        # Connections that are open are ended, not waited for: a stream could last for days.
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        try:
            self.run(sockets=[self._listener])
        finally:
            self._began.set()

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        def connection() -> asyncio.Protocol:
            return self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )

        # Not that of the library: it gives a peer a minute for its handshake.
        timeout = _HANDSHAKE_SECONDS if self._tls is not None else None
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(
                connection,
                sock=self._listener,
                ssl=self._tls,
                ssl_handshake_timeout=timeout,
                backlog=_BACKLOG,
            )
        ]
        self.started = True

    @override
    async def main_loop(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._began.set()
        await self._stopping.wait()
        # Accepting ends before the server closes: a connection that is accepted at that moment would be lost
        # without being closed.
        self._loop.remove_reader(self._listener.fileno())
        for _ in range(_CLOSING_ROUNDS):
            # Transports close in later rounds of the loop, and so appear connections that were just accepted.
            for connection in list(self.server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0)

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
