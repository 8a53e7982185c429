"""What came of a command, told to all who wait for it, however often they ask."""

from __future__ import annotations

import threading
from types import TracebackType

from egress.runtime.protocol import OutputCallback
from egress.runtime.spec import ExecResult


class ResultFuture:
    """Of one command; said once, by whoever follows it."""

    def __init__(self) -> None:
        self._is_there = threading.Event()
        self._came: ExecResult | BaseException | None = None
        self._way: TracebackType | None = None

    def settle(self, came: ExecResult | BaseException) -> None:
        """Say what it is: a result, or what is raised instead."""
        self._came = came
        self._way = None if isinstance(came, ExecResult) else came.__traceback__
        self._is_there.set()

    def is_settled(self, patience: float = 0.0) -> bool:
        """Whether it is there, or comes within these seconds."""
        return self._is_there.wait(patience)

    def wait(self, timeout: float | None = None) -> ExecResult:
        """Return it, or raise it. Raises `TimeoutError` when it has not come by then."""
        if not self._is_there.wait(timeout):
            raise TimeoutError
        if isinstance(self._came, ExecResult):
            return self._came
        if self._came is None:
            raise RuntimeError("a command settled without a result")
        # With where it came from, and without where it was raised the last time.
        raise self._came.with_traceback(self._way)


# Output of a command as it is kept: so many bytes of each stream, and whether there was more.
class CapturedStream:
    """One stream. What comes is told to whoever wants to be told, all of it; the beginning is kept."""

    def __init__(self, most: int, told: OutputCallback | None = None) -> None:
        self._most = most
        self._told = told
        self._data = bytearray()
        self.truncated = False

    def add(self, data: bytes) -> None:
        room = self._most - len(self._data)
        if len(data) > room:
            self.truncated = True
        self._data += data[:room]
        if self._told is not None:
            self._told(data)

    def data(self) -> bytes:
        return bytes(self._data)
