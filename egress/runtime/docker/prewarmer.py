"""Keeps a few slow-to-make things ready; each is taken once.

A thread makes them one after the other while fewer are ready than wanted.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from egress.runtime.errors import SandboxError

_RETRY_INTERVAL: Final = 5.0
"""Seconds until the next try after a failure."""
_REFILL_DELAY: Final = 0.5
"""Seconds after a `take` before the next one is made: the taker needs the machine now."""


class Prewarmer[Thing]:
    """Keeps things ready from the first `want` to `close`."""

    def __init__(self, name: str, make: Callable[[], Thing], end: Callable[[Thing], None]) -> None:
        self._make = make
        self._end = end
        self._name = name
        self._wanted = 0
        self._things: deque[Thing] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._is_making = False
        self._is_awaited = False
        """A taker waits for the thing that is being made."""
        self._last = -_REFILL_DELAY
        self._maker: threading.Thread | None = None

    def want(self, count: int) -> None:
        """Keep this many ready from now on, and end surplus ones. Returns before they are ready."""
        with self._changed:
            self._wanted = count
            surplus = [self._things.pop() for _ in range(len(self._things) - count)]
            if count and self._maker is None and not self._is_closed:
                # Set before the thread runs, so that a taker who comes sooner waits for its first thing.
                self._is_making = True
                self._maker = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._maker.start()
            self._changed.notify_all()
        for thing in surplus:
            self._end(thing)

    def take(self, *, awaits: bool = True) -> Thing | None:
        """A ready thing, or the one that is being made if it `awaits` that; None if there is neither."""
        with self._changed:
            if awaits and self._is_making and not self._things and not self._is_awaited:
                # It is ready sooner than one that the taker begins now.
                self._is_awaited = True
                self._changed.wait_for(lambda: self._things or not (self._is_making and self._wanted))
                self._is_awaited = False
            thing = self._things.popleft() if self._things else None
            self._last = time.monotonic()
            self._changed.notify_all()
        return thing

    def until_ready(self, timeout: float = 60.0) -> bool:
        """Wait until all wanted things are ready; returns whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._things) >= self._wanted, timeout)

    def close(self) -> None:
        """End the things that were not taken, and make no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._maker is not None:
            self._maker.join()
        while self._things:
            self._end(self._things.popleft())

    def _run(self) -> None:
        while self._is_wanted():
            try:
                thing = self._make()
            except (SandboxError, OSError):
                # The error is raised again for the next caller that makes one itself; here it is only
                # retried.
                with self._changed:
                    self._is_making = False
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._is_closed, _RETRY_INTERVAL)
                continue
            # Checked again: `want` and `close` may have changed the target while the thing was made.
            with self._changed:
                self._is_making = False
                is_surplus = self._is_closed or len(self._things) >= self._wanted
                if not is_surplus:
                    self._things.append(thing)
                self._changed.notify_all()
            if is_surplus:
                self._end(thing)

    def _is_wanted(self) -> bool:
        """Wait until a thing is wanted; false after `close`."""
        with self._changed:
            while not self._is_closed:
                rest = self._last + _REFILL_DELAY - time.monotonic()
                if len(self._things) >= self._wanted:
                    self._changed.wait()
                elif rest > 0:
                    self._changed.wait(rest)
                else:
                    break
            self._is_making = not self._is_closed
            self._changed.notify_all()
            return self._is_making
