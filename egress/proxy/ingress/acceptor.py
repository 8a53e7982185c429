"""Accepting connections of one listener, so that neither a flood nor a shortage stops the rest.

A few connections are taken each time the socket has some, so that others get their turn in between.
When descriptors or memory run out the socket stays readable, and trying again at once would burn a
whole core: nothing is accepted for a moment then. Connections meanwhile wait in the kernel's queue. The
last descriptors are not for connections of sandboxes at all: whoever operates the proxy needs one too.

It must not read from a connection, nor decide about it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import sys
from collections.abc import Callable
from typing import Final

_MAX_ACCEPTS_PER_TURN: Final = 16
"""Most connections taken in one go."""

RESERVED_DESCRIPTORS: Final = 64
"""Descriptors that are kept from connections; fewer where there are few at all."""


class Acceptor:
    """Hands every connection of a listening socket to `taken`, until it is closed."""

    __slots__ = ("_ceiling", "_loop", "_pause", "_resumption", "_sock", "_taken")

    def __init__(
        self,
        sock: socket.socket,
        taken: Callable[[socket.socket], object],
        pause: float,
        *,
        reserve: int = RESERVED_DESCRIPTORS,
    ) -> None:
        """`reserve`: how many descriptors are left to others; 0 for whoever may have the last one."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The system gives the lowest number that is free, so a high one says that there are few left.
        self._ceiling = sys.maxsize if limit == resource.RLIM_INFINITY else limit - min(reserve, limit // 8)
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
        for _ in range(_MAX_ACCEPTS_PER_TURN):
            try:
                self._check()
                connection, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._loop.remove_reader(self._sock)
                self._resumption = self._loop.call_later(self._pause, self._resume)
                return
            connection.settimeout(0)
            self._taken(connection)

    def _check(self) -> None:
        """Raise `OSError` where the next descriptor would be one of the reserve."""
        number = os.dup(self._sock.fileno())
        os.close(number)
        if number >= self._ceiling:
            raise OSError(errno.EMFILE, "the rest is kept for others")
