"""Input of a command that another process sends, as a file: a piece at a time, none of it ahead."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import override


class Incoming(io.RawIOBase):
    """Filled by the thread that reads the connection, read by another one."""

    def __init__(self, taken: Callable[[], object]) -> None:
        """`taken` is called when a piece has been read."""
        super().__init__()
        self._taken = taken
        self._piece = b""
        self._is_over = False
        self.is_whole = False
        """It came to its end."""
        self._changed = threading.Condition()

    def add(self, data: bytes) -> bool:
        """Take a piece in; false where the last one was not read, or there should be no more."""
        with self._changed:
            if self._piece or self._is_over:
                return False
            self._piece = data
            self._changed.notify_all()
        return True

    def end(self) -> None:
        """There is no more."""
        with self._changed:
            self._is_over = self.is_whole = True
            self._changed.notify_all()

    def break_off(self) -> None:
        """Nothing more will come, though it has not ended."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # type: ignore[override]
        with self._changed:
            self._changed.wait_for(lambda: self._piece or self._is_over)
            if not self._piece:
                return 0
            count = min(len(buffer), len(self._piece))
            buffer[:count] = self._piece[:count]
            self._piece = self._piece[count:]
            is_taken = not self._piece
        if is_taken:
            self._taken()
        return count
