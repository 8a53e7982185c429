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

from egress.proxy.event_loop import GRANTED_SECONDS, watch
from egress.shares.turns import ENDLESS_TURN, SandboxTurns, Turn

_MAX_ACCEPTS_PER_TURN: Final = 16
"""Most connections taken in one go."""

RESERVED_DESCRIPTORS: Final = 64
"""Descriptors that are kept from connections; fewer where there are few at all."""


class Acceptor:
    """Hands every connection of a listening socket to `taken`, until it is closed."""

    __slots__ = (
        "_ceiling",
        "_loop",
        "_most",
        "_pause",
        "_resumption",
        "_sock",
        "_taken",
        "_turns",
        "_watched",
    )

    def __init__(
        self,
        sock: socket.socket,
        taken: Callable[[socket.socket], object],
        pause: float,
        *,
        reserve: int = RESERVED_DESCRIPTORS,
        turns: SandboxTurns | None = None,
        most: int = _MAX_ACCEPTS_PER_TURN,
    ) -> None:
        """`reserve`: how many descriptors are left to others; 0 for whoever may have the last one.

        `most`: connections taken in one go.

        `turns`: those of the sandbox whose connections these are; None for connections of the operator.
        """
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The system gives the lowest number that is free, so a high one says that there are few left.
        self._ceiling = sys.maxsize if limit == resource.RLIM_INFINITY else limit - min(reserve, limit // 8)
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._taken = taken
        self._pause = pause
        self._most = most
        self._resumption: asyncio.TimerHandle | None = None
        sock.settimeout(0)
        self._turns = turns
        self._watched = None if turns is None else watch(sock, turns)
        self._resume()

    def close(self) -> None:
        """Take no more, and close the listening socket."""
        if self._resumption is not None:
            self._resumption.cancel()
        self._loop.remove_reader(self._sock)
        if self._watched is not None:
            self._watched.forget()
        self._sock.close()

    def _resume(self) -> None:
        self._resumption = None
        # It may have been closed while it waited.
        if self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock, self._take)

    def _take(self) -> None:
        """Take connections while there is time; what is left waits for a turn, like any other work."""
        turns = self._turns
        if turns is None:
            self._take_some(ENDLESS_TURN)
            return
        turns.enter()
        try:
            if turns.is_over or not self._take_some(turns):
                self._loop.remove_reader(self._sock)
                turns.wait(self._take_in_turn)
        finally:
            turns.leave()

    def _take_in_turn(self) -> None:
        self._resume()
        if self._sock.fileno() >= 0 and self._turns is not None:
            self._take_some(self._turns)

    def _take_some(self, turn: Turn) -> bool:
        """Take a few connections, one at least; return whether there was time for them."""
        for _ in range(self._most):
            try:
                self._check()
                connection, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return True
            except OSError:
                self._loop.remove_reader(self._sock)
                self._resumption = self._loop.call_later(self._pause, self._resume)
                return True
            connection.settimeout(0)
            self._taken(connection)
            if self._turns is not None:
                # A task begins for it, which takes longer than the accept.
                self._turns.charge(GRANTED_SECONDS)
            if turn.is_over:
                return False
        return True

    def _check(self) -> None:
        """Raise `OSError` where the next descriptor would be one of the reserve."""
        number = os.dup(self._sock.fileno())
        os.close(number)
        if number >= self._ceiling:
            raise OSError(errno.EMFILE, "the rest is kept for others")
