"""A bounded thread pool for index queries, so that a slow query blocks neither another one nor the server.

Each query opens its own index, because SQLite needs one connection per thread. The queue and the waiting
time are bounded. After a timeout the query keeps its thread until it ends.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from egress.errors import EgressError
from egress.review import Index

THREAD_COUNT = 4
MAX_WAITING_QUERIES = 16
ANSWER_TIMEOUT = 15.0
MAX_INDEX_AGE = 1.0
"""Seconds for which the index counts as up to date."""


class TooSlowError(EgressError):
    """A query exceeded its timeout."""

    code = "log.slow"
    exit_status = 3


class BusyError(EgressError):
    """The queue is full."""

    code = "log.busy"
    exit_status = 3


class IndexPool:
    """Runs queries on the index of one log."""

    def __init__(
        self,
        directory: Path,
        place: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        max_age: float = MAX_INDEX_AGE,
    ) -> None:
        """With a `max_age` of 0 each query sees every line that was written before it was asked."""
        self.directory = directory
        self._max_age = max_age
        self.place = place
        """Index path, if not beside the log."""
        self._clock = clock
        self._pool = ThreadPoolExecutor(THREAD_COUNT, "review")
        self._filling = threading.Lock()
        self._filled = float("-inf")
        self._waiting = 0

    def close(self) -> None:
        """Reject further queries and cancel the waiting ones."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def ask[T](self, query: Callable[[Index], T], timeout: float = ANSWER_TIMEOUT) -> T:  # noqa: ASYNC109
        """Run a query on an up-to-date index.

        Raises `TooSlowError`, `BusyError`, and the errors of the query.
        """

        def answer() -> T:
            with Index(self.directory, self.place) as index:
                self._catch_up(index)
                return query(index)

        return await self.work(answer, timeout)

    async def work[T](self, task: Callable[[], T], timeout: float = ANSWER_TIMEOUT) -> T:  # noqa: ASYNC109
        """Run a task that needs no index, with the same limits."""
        if self._waiting >= THREAD_COUNT + MAX_WAITING_QUERIES:
            raise BusyError("too many requests are waiting", "try again in a few seconds")
        self._waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, task)
        future.add_done_callback(self._ended)
        try:
            # A thread cannot be cancelled: the shield lets the future end by itself and count down.
            return await asyncio.wait_for(asyncio.shield(future), timeout)
        except TimeoutError:
            hint = "narrow the search: set `since`, or search for less text"
            raise TooSlowError("the query timed out", hint) from None

    def _ended[T](self, future: asyncio.Future[T]) -> None:
        self._waiting -= 1
        if not future.cancelled():
            # Reading the exception keeps asyncio from logging it after a timeout.
            future.exception()

    def _catch_up(self, index: Index) -> None:
        """Update the index, unless another thread just did or is doing so."""
        is_exact = self._max_age == 0
        is_old = is_exact or self._clock() - self._filled > self._max_age
        # Another thread may have begun before the newest line was written.
        if is_old and self._filling.acquire(blocking=is_exact):
            try:
                index.catch_up()
                self._filled = self._clock()
            finally:
                self._filling.release()
