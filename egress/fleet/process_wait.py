"""What a client waits for at a process: its end, a text in its output, or a listener on a port."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final, Protocol

from egress.fleet.errors import ProcessEndedError
from egress.fleet.tracking import OutputName, OutputPiece
from egress.runtime.errors import PortClosedError, SpecError
from egress.runtime.spec import check_ports

MAX_TEXT_LENGTH: Final = 4096
_PIECE_BYTES: Final = 64 * 1024
_POLL_INTERVAL: Final = 0.1
"""Seconds between two looks at a port: a kernel reports no event for a new listener."""


class ReadableProcess(Protocol):
    """The part of a process that is looked at."""

    @property
    def is_over(self) -> bool: ...

    def read_piece(self, stream: OutputName, offset: int, most: int | None) -> OutputPiece: ...


class ProcessExpectation:
    """One wait; the caller looks after each change of the process, from one thread at a time."""

    def __init__(
        self, process: ReadableProcess, dial: Callable[[int], socket.socket], log: str, port: int | None
    ) -> None:
        """Raises `SpecError` for a text and a port at once, and for impossible ones."""
        if log and port is not None:
            raise SpecError("a wait is for a text or for a port", "name one of them")
        if len(log) > MAX_TEXT_LENGTH:
            raise SpecError(f"the text has more than {MAX_TEXT_LENGTH} characters", "wait for a part of it")
        if port is not None:
            check_ports((port,))
        self._process = process
        self._dial = dial
        self._port = port
        self._wanted = log.encode()
        self._offsets: dict[OutputName, int] = {"stdout": 0, "stderr": 0}
        self._tails: dict[OutputName, bytes] = {"stdout": b"", "stderr": b""}

    def is_met(self) -> bool:
        """Return whether it has happened. Raises `ProcessEndedError` if it cannot happen any more."""
        # Asked first: output that came before the end counts.
        is_over = self._process.is_over
        if self._port is None and not self._wanted:
            return is_over
        if self._listens(self._port) if self._port is not None else any(map(self._finds, self._offsets)):
            return True
        if is_over:
            raise ProcessEndedError("the process ended before it happened", "see its output and its status")
        return False

    def pause(self, left: float | None) -> float | None:
        """Return the seconds until the next look, if the process does not change before."""
        if self._port is None:
            return left
        return _POLL_INTERVAL if left is None else min(left, _POLL_INTERVAL)

    def _finds(self, stream: OutputName) -> bool:
        """Look at the output since the last look; the text may have begun before it."""
        while True:
            piece = self._process.read_piece(stream, self._offsets[stream], _PIECE_BYTES)
            if not piece.data:
                return False
            # A text does not reach over a gap.
            tail = self._tails[stream] if piece.offset == self._offsets[stream] else b""
            seen = tail + piece.data
            self._offsets[stream] = piece.next
            if self._wanted in seen:
                return True
            self._tails[stream] = seen[max(0, len(seen) - len(self._wanted) + 1) :]

    def _listens(self, port: int) -> bool:
        try:
            self._dial(port).close()
        except PortClosedError:
            return False
        return True
