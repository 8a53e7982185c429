"""A bounded queue between the event loop and the thread that exports: neither waits for the other. Pure.

Only one thread puts, and only one other takes. Each writes fields of its own, and a deque is safe to use from
both ends, so no lock is needed and the event loop never waits for one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from egress.telemetry.metric_families import MetricFamily


@dataclass(frozen=True, slots=True)
class ExportedLine:
    """A line of the audit log."""

    text: bytes
    """The line as it is in the log, with its MAC and its line end."""
    written: int
    """In nanoseconds of UTC."""


@dataclass(frozen=True, slots=True)
class MetricSnapshot:
    """All metrics at one moment."""

    families: tuple[MetricFamily, ...]
    began: int
    """When counting began, in nanoseconds of UTC."""
    at: int
    """The moment, in nanoseconds of UTC."""


class ExportQueue[Item]:
    """Items that wait to be exported; what does not fit is dropped and counted."""

    __slots__ = ("_bytes_put", "_bytes_taken", "_items", "_max_bytes", "_max_items", "dropped")

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._items: deque[tuple[int, Item]] = deque()
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._bytes_put = 0
        self._bytes_taken = 0
        self.dropped = 0
        """How many did not fit, since the start."""

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item, size: int) -> bool:
        """Add an item of this many bytes; False if it was dropped."""
        waiting = self._bytes_put - self._bytes_taken
        if len(self._items) >= self._max_items or waiting + size > self._max_bytes:
            self.dropped += 1
            return False
        self._bytes_put += size
        self._items.append((size, item))
        return True

    def take(self, most: int) -> list[Item]:
        """Remove and return the oldest items, at most so many."""
        taken: list[Item] = []
        while self._items and len(taken) < most:
            size, item = self._items.popleft()
            self._bytes_taken += size
            taken.append(item)
        return taken
