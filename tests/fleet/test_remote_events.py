"""A reader of events ends by itself, by another thread, or with an error."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import override

import pytest

from egress.fleet.errors import FleetUnavailableError
from egress.fleet.remote_events import RemoteEventReader


class Source:
    def __init__(self) -> None:
        self.ended = threading.Event()

    def end(self) -> None:
        self.ended.set()


class Reader(RemoteEventReader[int]):
    def __init__(self, *items: int, source: Source | None = None) -> None:
        self.closed: list[bool] = []
        self.source = source or Source()
        stack = ExitStack()
        stack.callback(self.closed.append, True)
        super().__init__(self.source, stack)
        self.items = list(items)

    @override
    def _next_item(self) -> int | None:
        if self.items:
            return self.items.pop(0)
        self.source.ended.wait(0.2 if self.is_lost else 30)
        return None

    is_lost = False


def test_a_lost_connection_is_no_end() -> None:
    reader = Reader(1)
    reader.is_lost = True
    assert next(reader) == 1
    with pytest.raises(FleetUnavailableError):
        next(reader)
    assert reader.closed


def test_another_thread_ends_it() -> None:
    reader = Reader(1, 2)
    found: list[int] = []
    reading = threading.Thread(target=lambda: found.extend(reader))
    reading.start()
    while len(found) < 2:
        reading.join(0.01)
    reader.close()
    reading.join(30)
    assert (found, reader.closed) == ([1, 2], [True])


def test_one_that_nobody_reads_is_closed_at_once() -> None:
    reader = Reader(1)
    reader.close()
    assert reader.closed
    assert list(reader) == []
