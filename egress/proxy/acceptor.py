"""Accepting connections of one listener, so that neither a flood nor a shortage stops the rest.

A few connections are taken each time the socket has some, so that others get their turn in between.
When descriptors or memory run out the socket stays readable, and trying again at once would burn a
whole core: nothing is accepted for a moment then. Connections meanwhile wait in the kernel's queue.

It must not read from a connection, nor decide about it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

_TURN: Final = 16
"""Most connections taken in one go."""


class Acceptor:
    """Hands every connection of a listening socket to `taken`, until it is closed."""

    __slots__ = ("_loop", "_pause", "_resumption", "_sock", "_taken")

    def __init__(self, sock: socket.socket, taken: Callable[[socket.socket], object], pause: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._taken = taken
        self._pause = pause
        self._resumption: asyncio.TimerHandle | None = None
        sock.settimeout(0)
        self._resume()

    def close(self) -> None:
        """Take no more, and close the listening socket."""
        if self._resumption is not None:
            self._resumption.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()

    def _resume(self) -> None:
        self._resumption = None
        self._loop.add_reader(self._sock, self._take)

    def _take(self) -> None:
        for _ in range(_TURN):
            try:
                connection, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._loop.remove_reader(self._sock)
                self._resumption = self._loop.call_later(self._pause, self._resume)
                return
            connection.settimeout(0)
            self._taken(connection)
