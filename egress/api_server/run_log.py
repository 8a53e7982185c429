"""The log of a run, shared by its readers: a few questions at a time, and a few readers of new lines.

A question may look through much of the log, and each reader of new lines looks for them several times in a
second. Without these bounds, clients of the API would slow the sandboxes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from egress.review.index_pool import BusyError, IndexPool

MAX_FOLLOWERS: Final = 32


class FollowerSlots:
    """The places for readers of new lines."""

    def __init__(self, count: int = MAX_FOLLOWERS) -> None:
        self._free = threading.BoundedSemaphore(count)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Take a place. Raises `BusyError` if there is none."""
        if not self._free.acquire(blocking=False):
            raise BusyError("too many clients follow the log", "end one of them, or try again later")
        try:
            yield
        finally:
            self._free.release()


class RunLog:
    """The readers of one log."""

    def __init__(self) -> None:
        self.followers = FollowerSlots()
        self._pool: IndexPool | None = None

    def pool(self, directory: Path) -> IndexPool:
        """Return the threads for questions; only the loop of the server asks for them."""
        if self._pool is None:
            # A program asks for the request that it has just made.
            self._pool = IndexPool(directory, max_age=0.0)
        return self._pool
