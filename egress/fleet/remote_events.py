"""Events of a fleet behind the API, read by one thread and ended by any."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Protocol, Self

from egress.fleet.remote_process import gone_error


class EndableSource(Protocol):
    """A stream of the API."""

    def end(self) -> None:
        """End the connection."""


class RemoteEventReader[T]:
    """An iterator over what a stream brings. A connection that is lost is an error, and not its end."""

    def __init__(self, source: EndableSource, stack: ExitStack) -> None:
        """`stack` closes the answer."""
        self._source = source
        self._stack = stack
        self._is_over = False
        self._reading = threading.Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        with self._reading:
            item = None if self._is_over else self._next_item()
            if item is not None:
                return item
            self._stack.close()
        if not self._is_over:
            # A lost connection must not look like the end of the output.
            raise gone_error()
        raise StopIteration

    def close(self) -> None:
        """Read no more; a thread that waits for an item gets the end."""
        self._is_over = True
        self._source.end()
        # A thread that reads closes the answer itself: it must not lose it in the middle of a line.
        if self._reading.acquire(blocking=False):
            self._stack.close()
            self._reading.release()

    def _next_item(self) -> T | None:
        """Return the next item; None when there is none. Sets `_is_over` if that is no fault."""
        raise NotImplementedError
