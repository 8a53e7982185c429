"""Listening sockets and server settings: a TCP port, or a unix socket with mode 0600.

Requests are never logged, because an address can contain the login token.
"""

from __future__ import annotations

import socket
import stat
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from egress.errors import UnreadableError
from egress.unix.stream_socket import connect, listen
from egress.uvicorn_idle_timeout import TimedConnection

MAX_CONNECTIONS = 64
"""Concurrent connections."""
IDLE_TIMEOUT = 10
"""Seconds for a whole request, and between a response and the next request."""
MAX_REQUEST_BYTES = 1024 * 1024
"""Request size. Browsers send the cookies of every port of a host name, up to 180 of 4 kB each."""


def listen_on_port(host: str, number: int) -> socket.socket:
    """Open a listening TCP socket; port 0 picks a free one. Raises `UnreadableError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, number))
        sock.listen(MAX_CONNECTIONS)
    except (OSError, OverflowError) as error:
        sock.close()
        hint = "choose another address with --listen, or `--listen 127.0.0.1:0` for a free port"
        raise UnreadableError(f"cannot listen on {host}:{number}: {_reason(error)}", hint) from None
    return sock


def listen_on_socket(path: Path) -> socket.socket:
    """Open a listening unix socket with mode 0600, replacing a stale one. Raises `UnreadableError`."""
    try:
        _remove_stale(path)
        return listen(path, MAX_CONNECTIONS)
    except OSError as error:
        hint = "choose another path with --socket"
        raise UnreadableError(f"cannot create the socket {path}: {_reason(error)}", hint) from None


def _remove_stale(path: Path) -> None:
    """Remove a socket without a server. Any other file stays, and `bind` fails on it."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
        try:
            connect(path, None).close()
        except ConnectionRefusedError:
            path.unlink()


def config(app: ASGIApp, timeout: int = IDLE_TIMEOUT) -> uvicorn.Config:
    """Return the server settings: no request log, and limits on connections, time and size."""
    # Proxy headers stay off: any local program could claim another client address or scheme.
    return uvicorn.Config(
        app,
        http=TimedConnection,
        ws="none",
        loop="asyncio",
        access_log=False,
        log_config=None,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=timeout,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=MAX_REQUEST_BYTES,
    )


def serve(app: ASGIApp, sock: socket.socket) -> None:
    """Serve until interrupted."""
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config(app)).run(sockets=[sock])


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else str(error)
    return (text or type(error).__name__).lower()
