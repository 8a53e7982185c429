"""The desk: a few threads that ask the index, so that no question holds up another one, or the server.

Each question opens the index for itself, for SQLite wants one for each thread. How many questions may
wait is bounded, and so is how long anybody waits for an answer: a question that takes longer is left to
its thread, which is busy until it has ended.
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
MAX_WAITING_QUESTIONS = 16
ANSWER_TIMEOUT = 15.0
MAX_INDEX_AGE = 1.0
"""Seconds for which an index counts as up to date."""


class TooSlowError(EgressError):
    """A question took longer than a page may."""

    code = "ui.slow"
    exit_status = 3


class BusyError(EgressError):
    """There are too many questions already."""

    code = "ui.busy"
    exit_status = 3


class IndexPool:
    """Questions to the index of one log."""

    def __init__(
        self, directory: Path, place: Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.directory = directory
        self.place = place
        """The index, where it is not beside the log."""
        self._clock = clock
        self._pool = ThreadPoolExecutor(THREAD_COUNT, "review")
        self._filling = threading.Lock()
        self._filled = float("-inf")
        self._waiting = 0

    def close(self) -> None:
        """Take no more questions."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def ask[T](self, question: Callable[[Index], T], patience: float = ANSWER_TIMEOUT) -> T:
        """The answer, from an index that is up to the lines.

        Raises `TooSlowError`, `BusyError`, and what the question raises.
        """

        def answer() -> T:
            with Index(self.directory, self.place) as index:
                self._catch_up(index)
                return question(index)

        return await self.work(answer, patience)

    async def work[T](self, task: Callable[[], T], patience: float = ANSWER_TIMEOUT) -> T:
        """Do something that needs no index, under the same bounds."""
        if self._waiting >= THREAD_COUNT + MAX_WAITING_QUESTIONS:
            raise BusyError("this page has too much to do just now", "try again in some seconds")
        self._waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, task)
        future.add_done_callback(self._ended)
        try:
            return await asyncio.wait_for(asyncio.shield(future), patience)
        except TimeoutError:
            hint = "ask for less: a time with `since`, or fewer words to search for"
            raise TooSlowError("this takes too long for a page", hint) from None

    def _ended[T](self, future: asyncio.Future[T]) -> None:
        self._waiting -= 1
        if not future.cancelled():
            # Asked for, so that nobody is told of an error that nobody waited for.
            future.exception()

    def _catch_up(self, index: Index) -> None:
        """Bring it up to the lines, unless somebody just did, or is at it."""
        if self._clock() - self._filled > MAX_INDEX_AGE and self._filling.acquire(blocking=False):
            try:
                index.catch_up()
                self._filled = self._clock()
            finally:
                self._filling.release()
