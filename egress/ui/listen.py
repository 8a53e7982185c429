"""Where the page listens: a port of this machine, or a unix socket that only its owner may open.

Nothing of a request is logged: an address can hold the token.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from egress.errors import UnreadableError
from egress.ui.patience import Conversation

MOST = 64
"""Conversations at a time."""
PATIENCE = 10
"""Seconds for a whole question, and between an answer and the next question."""
LONGEST = 1024 * 1024
"""Bytes of a question. Browsers send the cookies of every port of a name, up to 180 of 4 kB."""


def port(host: str, number: int) -> socket.socket:
    """A listening TCP socket; 0 takes any free port. Raises `UnreadableError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, number))
        sock.listen(MOST)
    except (OSError, OverflowError) as error:
        sock.close()
        hint = "give another one with --listen, or `--listen 127.0.0.1:0` for any that is free"
        raise UnreadableError(f"the page cannot listen there: {_reason(error)}", hint) from None
    return sock


def unix(path: Path) -> socket.socket:
    """A listening unix socket, mode 0600, in place of one that nobody serves. Raises `UnreadableError`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        _clear(path)
        sock.bind(str(path))
        sock.listen(MOST)
    except OSError as error:
        sock.close()
        hint = "name another one with --socket"
        raise UnreadableError(f"the socket {path} cannot be made: {_reason(error)}", hint) from None
    finally:
        os.umask(before)
    return sock


def _clear(path: Path) -> None:
    """Take away a socket that is left over; anything else stays, and binding says so."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()


def config(app: ASGIApp, patience: int = PATIENCE) -> uvicorn.Config:
    """How it is served: without a log of requests, and bounded."""
    return uvicorn.Config(
        app,
        http=Conversation,
        ws="none",
        loop="asyncio",
        access_log=False,
        log_config=None,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST,
        timeout_keep_alive=patience,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=LONGEST,
    )


def serve(app: ASGIApp, sock: socket.socket) -> None:
    """Serve until told to stop."""
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config(app)).run(sockets=[sock])


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else str(error)
    return (text or type(error).__name__).lower()
