"""The result of a command, for all threads that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO, Final

from egress.runtime.errors import SandboxTimeoutError
from egress.runtime.protocol import OutputCallback
from egress.runtime.spec import ExecResult

_INPUT_PIECE_BYTES: Final = 64 * 1024


class ResultFuture:
    """The result of one command, settled once by the thread that follows the command."""

    def __init__(self) -> None:
        self._is_there = threading.Event()
        self._came: ExecResult | BaseException | None = None
        self._traceback: TracebackType | None = None

    def settle(self, came: ExecResult | BaseException) -> None:
        """Set the result, or the exception that `wait` raises."""
        self._came = came
        self._traceback = None if isinstance(came, ExecResult) else came.__traceback__
        self._is_there.set()

    def is_settled(self, timeout: float = 0.0) -> bool:
        """Return whether the result is there, or comes within these seconds."""
        return self._is_there.wait(timeout)

    def wait(self, timeout: float | None = None) -> ExecResult:
        """Return the result, or raise the exception. Raises `SandboxTimeoutError` after `timeout` seconds."""
        if not self._is_there.wait(timeout):
            raise SandboxTimeoutError("the command has not ended within the given time", "wait longer")
        if isinstance(self._came, ExecResult):
            return self._came
        if self._came is None:
            raise RuntimeError("a command settled without a result")
        # With its original traceback: each raise would otherwise add to the last one.
        raise self._came.with_traceback(self._traceback)


def feed_input(
    source: bytes | BinaryIO | None, write: Callable[[bytes], object], outcome: ResultFuture
) -> None:
    """Write a command's input piece by piece, until the input or the command ends."""
    if source is None:
        return
    if isinstance(source, bytes):
        write(source)
        return
    # The caller's file may fail in any way: the command then gets the input read so far.
    with suppress(OSError, ValueError):
        while not outcome.is_settled() and (piece := source.read(_INPUT_PIECE_BYTES)):
            write(piece)


# Output that is kept up to a limit, with a note whether there was more.
class CapturedStream:
    """A stream: every piece goes to the callback, and the first bytes are kept."""

    def __init__(self, max_bytes: int, callback: OutputCallback | None = None) -> None:
        self._max_bytes = max_bytes
        self._callback = callback
        self._data = bytearray()
        self.truncated = False

    def add(self, data: bytes) -> None:
        room = self._max_bytes - len(self._data)
        if len(data) > room:
            self.truncated = True
        self._data += data[:room]
        if self._callback is not None:
            self._callback(data)

    def data(self) -> bytes:
        return bytes(self._data)
