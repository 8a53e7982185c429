"""A fleet served to other processes of the same user, over a unix socket.

The socket has mode 0600 in a folder of mode 0700, and the kernel is asked who is at the other end: only the
user of the fleet, and root, are listened to. No sandbox is given the folder, so none reaches it.

What a client began in the foreground ends with it: a command that is waited for, one in a terminal, an
archive on its way. What it began with `spawn` and no terminal goes on, and what that prints is read and
dropped, until it ends or its sandbox does. Sandboxes stay: they are the fleet's.
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

import structlog

from egress.errors import reason_of
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.fleet import Fleet
from egress.fleet.folders import SOCKET_NAME, own_folder
from egress.fleet.rpc_channel import RpcChannel
from egress.fleet.rpc_dispatch import RpcDispatcher
from egress.unix.own_folder import lock_file
from egress.unix.peer import is_own_user
from egress.unix.stream_socket import listen

_log = structlog.get_logger(__name__)

_LOCK_NAME: Final = "sandboxes.lock"
_MAX_CONVERSATIONS: Final = 1024
"""Conversations at a time."""
_ACCEPT_RETRY_INTERVAL: Final = 0.05


def _ignore_end() -> None:
    """Nobody waits for the word."""


class RpcServer:
    """The socket, from when it is made to `close`."""

    def __init__(self, fleet: Fleet, folder: Path, on_end: Callable[[], object] = _ignore_end) -> None:
        """Listen. `on_end` is called when a client asks for the end of the fleet.

        Raises `FleetUnavailableError` where that cannot be, or another process does it.
        """
        self.path = own_folder(folder) / SOCKET_NAME
        self._answering = RpcDispatcher(fleet, on_end)
        self._lock = threading.Lock()
        self._links: set[RpcChannel] = set()
        self._is_closed = False
        held = lock_file(folder / _LOCK_NAME)
        if held is None:
            raise FleetUnavailableError(
                f"another process serves sandboxes in {folder}", "use those, or stop it with `egress down`"
            )
        self._held = held
        try:
            self._listener = listen(self.path, 64, is_ours=True)
        except OSError as error:
            os.close(self._held)
            raise FleetUnavailableError(
                f"the socket {self.path} cannot be made: {reason_of(error)}", "name another runtime folder"
            ) from None
        self._thread = threading.Thread(target=self._accept, name="egress-fleet", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more. The fleet stays as it is."""
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
                # Gone again, or no descriptor is left just now.
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
        except Exception:  # noqa: BLE001 - one conversation, not all
            _log.exception("fleet.failed")
        finally:
            with self._lock:
                self._links.discard(link)
            link.close()
