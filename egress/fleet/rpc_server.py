"""Serves a fleet to other processes of the same user, over a unix socket.

The socket has mode 0600 in a folder of mode 0700, and the kernel is asked for the peer's user: only the
fleet's user and root are served. No sandbox gets the folder, so no sandbox reaches the socket.

Foreground work ends with its connection: a command that is waited for, a command in a terminal, an archive on
its way. A command from `spawn` without a terminal goes on; its output is read and dropped until it or its
sandbox ends. Sandboxes stay: they belong to the fleet.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from egress.errors import reason_of
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.fleet import Fleet
from egress.fleet.folders import SOCKET_NAME, own_folder
from egress.fleet.rpc_channel import RpcChannel
from egress.fleet.rpc_dispatch import RpcDispatcher
from egress.logger import EventLogger
from egress.unix.own_folder import lock_file
from egress.unix.peer import is_own_user
from egress.unix.stream_socket import listen

_log = EventLogger(__name__)

_LOCK_NAME: Final = "sandboxes.lock"
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
        held = lock_file(folder / _LOCK_NAME)
        if held is None:
            raise FleetUnavailableError(
                f"another process serves sandboxes in {folder}",
                "connect to it, or stop it with `egress down`",
            )
        # The lock comes before the socket: its holder may replace the socket of an ended process.
        self._held = held
        try:
            self._listener = listen(self.path, 64, is_ours=True)
        except OSError as error:
            os.close(self._held)
            raise FleetUnavailableError(
                f"cannot create the socket {self.path}: {reason_of(error)}", "choose another runtime folder"
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
        if not is_own_user(sock):
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
