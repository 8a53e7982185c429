"""Keeps the newest bytes of an endless stream; each reader proceeds at its own pace.

Theory of operation. Every byte has a number, counted from the beginning of the stream. A ring keeps those
with the highest numbers; a reader remembers its position. A reader that falls behind the kept bytes gets an
error: output with a gap is never returned silently. Adding never blocks, so a slow reader cannot hold up the
process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from egress.runtime.byte_ring import ByteRing
from egress.sandbox.cancellation import cancelled_by
from egress.sandbox.errors import OutputLostError


class RingBuffer:
    """The newest bytes of one stream."""

    def __init__(self, max_bytes: int) -> None:
        self._ring = ByteRing(max_bytes)
        self._is_closed = False
        self._changed = threading.Condition()

    @property
    def dropped(self) -> int:
        """The number of bytes that were dropped."""
        with self._changed:
            return self._ring.first

    def add(self, piece: bytes) -> None:
        """Add the next bytes."""
        with self._changed:
            self._ring.add(piece)
            self._changed.notify_all()

    def close(self) -> None:
        """Mark the end of the stream."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def data(self) -> bytes:
        """The kept bytes."""
        with self._changed:
            return self._ring.read(0)[1]

    def pieces(self) -> Iterator[bytes]:
        """The kept bytes and the coming ones, until the stream ends. Raises `OutputLostError`."""
        at = self.dropped
        # An empty piece means a cancelled wait.
        while piece := self.read_after(at):
            at += len(piece)
            yield piece

    def read_after(self, at: int, timeout: float | None = None) -> bytes | None:
        """Return the bytes from a position on, once there are some; None at the end of the stream.

        Empty after `timeout`, or after a cancellation. Raises `OutputLostError`.
        """
        given_up = False

        def give_up() -> None:
            nonlocal given_up
            with self._changed:
                given_up = True
                self._changed.notify_all()

        with cancelled_by(give_up), self._changed:
            self._changed.wait_for(lambda: self._ring.end > at or self._is_closed or given_up, timeout)
            # Judged under the lock: bytes may have been dropped while this reader waited.
            start, data = self._ring.read(at)
            if at < start:
                raise OutputLostError(
                    f"{start - at} bytes of output were dropped before they were read",
                    "read faster, raise keep=, or use on_stdout and on_stderr",
                )
            return None if self._is_closed and not data else data
