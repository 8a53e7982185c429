"""Bytes of a stream that goes on: the newest are kept, and each reader goes through them at its own pace.

Theory of operation. Every byte has a number, counted from the beginning of the stream. A ring keeps those
with the highest numbers; a reader remembers the number it is at. One that falls behind what is kept is told
so by an error: output with a hole in it is never handed out in silence. Adding never waits: nobody who reads
slowly, or not at all, holds up the process.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from egress.sandbox.cancellation import cancelled_by
from egress.sandbox.errors import OutputLostError


class RingBuffer:
    """The newest bytes of one stream."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._end = 0
        """How many there were in all."""
        self._is_closed = False
        self._changed = threading.Condition()

    @property
    def dropped(self) -> int:
        """How many bytes are not kept any more."""
        with self._changed:
            return self._end - self._size

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""
        kept = piece[-self._most :] if self._most else b""
        with self._changed:
            self._end += len(piece)
            self._pieces.append(kept)
            self._size += len(kept)
            self._trim()
            self._changed.notify_all()

    def close(self) -> None:
        """There are no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def data(self) -> bytes:
        """All that is kept."""
        with self._changed:
            return b"".join(self._pieces)

    def pieces(self) -> Iterator[bytes]:
        """What is kept and what comes, until the stream ends. Raises `OutputLostError`."""
        at = self.dropped
        # Nothing at all is a wait that was given up.
        while piece := self.read_after(at):
            at += len(piece)
            yield piece

    def read_after(self, at: int, timeout: float | None = None) -> bytes | None:
        """Return what there is from a number on, once there is some; None at the end of the stream.

        Nothing, where it took longer than `timeout`, or the wait was given up. Raises `OutputLostError`.
        """
        given_up = False

        def give_up() -> None:
            nonlocal given_up
            with self._changed:
                given_up = True
                self._changed.notify_all()

        with cancelled_by(give_up), self._changed:
            self._changed.wait_for(lambda: self._end > at or self._is_closed or given_up, timeout)
            start = self._end - self._size
            if at < start:
                raise OutputLostError(
                    f"{start - at} bytes of output were not read in time",
                    "read faster, keep more of it with keep=, or take it by on_stdout and on_stderr",
                )
            if self._end > at:
                return self._joined()[at - start :]
            return None if self._is_closed else b""

    def _joined(self) -> bytes:
        if len(self._pieces) > 1:
            whole = b"".join(self._pieces)
            self._pieces = deque((whole,))
        return self._pieces[0]

    def _trim(self) -> None:
        while self._size > self._most:
            excess = self._size - self._most
            first = self._pieces[0]
            if len(first) <= excess:
                self._pieces.popleft()
                self._size -= len(first)
            else:
                self._pieces[0] = first[excess:]
                self._size -= excess
