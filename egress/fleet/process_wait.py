"""What a client waits for at a process: its end, a text in its output, a listener, or an answer over HTTP."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final, Protocol

from egress.fleet.errors import ProcessEndedError
from egress.fleet.http_probe import HttpProbe
from egress.fleet.process_interface import OutputName, OutputPiece
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
        self,
        process: ReadableProcess,
        dial: Callable[[int], socket.socket],
        log: str,
        port: int | None,
        http: HttpProbe | None,
    ) -> None:
        """Raises `SpecError` for two of them at once, and for impossible ones."""
        if sum((bool(log), port is not None, http is not None)) > 1:
            raise SpecError("a wait is for a text, for a port or for an answer", "name one of them")
        if len(log) > MAX_TEXT_LENGTH:
            raise SpecError(f"the text has more than {MAX_TEXT_LENGTH} characters", "wait for a part of it")
        if port is not None:
            check_ports((port,))
        self._process = process
        self._dial = dial
        self._port = port
        self._http = http
        self._wanted = log.encode()
        self._next_request = 0.0
        self._offsets: dict[OutputName, int] = {"stdout": 0, "stderr": 0}
        self._tails: dict[OutputName, bytes] = {"stdout": b"", "stderr": b""}

    def is_met(self) -> bool:
        """Return whether it has happened. Raises `ProcessEndedError` if it cannot happen any more."""
        # Asked first: output that came before the end counts.
        is_over = self._process.is_over
        if self._port is None and self._http is None and not self._wanted:
            return is_over
        if self._has_happened():
            return True
        if is_over:
            raise ProcessEndedError("the process ended before it happened", "see its output and its status")
        return False

    def pause(self, left: float | None) -> float | None:
        """Return the seconds until the next look, if the process does not change before."""
        if self._port is None and self._http is None:
            return left
        interval = _POLL_INTERVAL if self._http is None else self._http.interval
        return interval if left is None else min(left, interval)

    def _has_happened(self) -> bool:
        if self._http is not None:
            # Output wakes the wait, too, and shall not cause a request each time.
            now = time.monotonic()
            if now < self._next_request:
                return False
            self._next_request = now + self._http.interval
            return self._http.is_met(self._dial)
        if self._port is not None:
            return self._listens(self._port)
        return any(map(self._finds, self._offsets))

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
