"""Serves a fleet to other processes of the same user, over a unix socket.

The socket has mode 0600 in a folder of mode 0700, and the kernel is asked for the peer's user: only the
fleet's user and root are served. No sandbox gets the folder, so no sandbox reaches the socket.

Foreground work ends with its connection: a command that is waited for, a command in a terminal, an archive on
its way. A command from `spawn` without a terminal goes on; its output is read and dropped until it or its
sandbox ends. Sandboxes stay: they belong to the fleet.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from egress.fleet.errors import FleetUnavailableError
from egress.fleet.fleet import Fleet
from egress.fleet.folders import SOCKET_NAME, own_folder
from egress.fleet.rpc_channel import RpcChannel
from egress.fleet.rpc_dispatch import RpcDispatcher

_log = structlog.get_logger(__name__)

_LOCK_NAME: Final = "sandboxes.lock"
_MAX_SOCKET_PATH_BYTES: Final = 100
_PEER_FORMAT: Final = struct.Struct("3i")
_MAX_CONVERSATIONS: Final = 1024
"""Connections at a time."""
_ACCEPT_RETRY_INTERVAL: Final = 0.05


def _ignore_end() -> None:
    """Default callback: no one waits for the request."""


class RpcServer:
    """The listening socket, from its creation to `close`."""

    def __init__(self, fleet: Fleet, folder: Path, on_end: Callable[[], object] = _ignore_end) -> None:
        """Listen. `on_end` is called when a client asks for the end of the fleet.

        Raises `FleetUnavailableError` if that is impossible, or another process serves this folder.
        """
        self.path = own_folder(folder) / SOCKET_NAME
        self._answering = RpcDispatcher(fleet, on_end)
        self._lock = threading.Lock()
        self._links: set[RpcChannel] = set()
        self._is_closed = False
        if len(os.fsencode(self.path)) > _MAX_SOCKET_PATH_BYTES:
            raise FleetUnavailableError(
                f"the socket path {self.path} is too long", "choose a shorter runtime folder"
            )
        # The lock comes before the socket: its holder may replace the socket of an ended process.
        self._held = _take_lock(folder)
        try:
            self._listener = _bind(self.path)
        except OSError as error:
            os.close(self._held)
            reason = (error.strerror or type(error).__name__).lower()
            raise FleetUnavailableError(
                f"cannot create the socket {self.path}: {reason}", "choose another runtime folder"
            ) from None
        self._thread = threading.Thread(target=self._accept, name="egress-fleet", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close all connections. The fleet itself stays open."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            links = list(self._links)
        self.path.unlink(missing_ok=True)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in links:
            link.end()
        self._thread.join()
        os.close(self._held)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if self._is_closed:
                    return
                # The connection is gone again, or no descriptor is free just now.
                time.sleep(_ACCEPT_RETRY_INTERVAL)
                continue
            self._take(sock)

    def _take(self, sock: socket.socket) -> None:
        if not is_own_peer(sock):
            sock.close()
            return
        link = RpcChannel(sock)
        with self._lock:
            if self._is_closed or len(self._links) >= _MAX_CONVERSATIONS:
                link.close()
                return
            self._links.add(link)
        threading.Thread(target=self._talk, args=(link,), name="egress-fleet-call", daemon=True).start()

    def _talk(self, link: RpcChannel) -> None:
        try:
            self._answering.answer(link)
        except Exception:  # noqa: BLE001 - only this connection fails
            _log.exception("fleet.failed")
        finally:
            with self._lock:
                self._links.discard(link)
            link.close()


def is_own_peer(sock: socket.socket) -> bool:
    """Return whether the peer's process belongs to our user, or to root."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_FORMAT.size)
    _, uid, _ = _PEER_FORMAT.unpack(found)
    return uid in (os.geteuid(), 0)


def _take_lock(folder: Path) -> int:
    handle = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise FleetUnavailableError(
            f"another process serves sandboxes in {folder}", "connect to it, or stop it with `egress down`"
        ) from None
    return handle


def _bind(path: Path) -> socket.socket:
    # The holder of the lock owns the name: a socket there belongs to an ended process.
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        path.chmod(0o600)
        sock.listen(64)
    except BaseException:
        sock.close()
        raise
    return sock
