"""Events reach every listener, and a listener can leave while nothing happens."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from egress.fleet.event_fanout import EventFanout
from egress.runtime.errors import EngineUnavailableError
from egress.runtime.spec import Event


class Source:
    """A stream of events that ends when it is told so."""

    def __init__(self) -> None:
        self.opened = 0
        self.events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self.closed = threading.Event()

    @contextmanager
    def __call__(self) -> Iterator[Iterator[Event]]:
        self.opened += 1
        try:
            yield iter(self.events.get, None)
        finally:
            self.closed.set()


def test_all_are_told_all_of_it_from_one_reading() -> None:
    source = Source()
    broadcast = EventFanout(source)
    with broadcast.subscribe() as one, broadcast.subscribe() as other:
        source.events.put(Event("created", "a"))
        assert next(iter(one)) == next(iter(other)) == Event("created", "a")
    assert source.opened == 1
    source.events.put(None)
    assert source.closed.wait(10)


def test_who_closes_comes_to_the_end() -> None:
    broadcast = EventFanout(Source())
    subscription = broadcast.subscribe()
    threading.Thread(target=subscription.close).start()
    assert list(subscription) == []


def test_the_end_of_the_source_is_the_end_for_all_and_the_next_begins_anew() -> None:
    source = Source()
    broadcast = EventFanout(source)
    one = broadcast.subscribe()
    source.events.put(None)
    assert list(one) == []
    assert source.closed.wait(10)
    with broadcast.subscribe() as again:
        source.events.put(Event("died", "b"))
        assert next(iter(again)) == Event("died", "b")
    assert source.opened == 2


def test_what_keeps_the_source_from_being_read_is_for_whoever_asked() -> None:
    def broken() -> AbstractContextManager[Iterator[Event]]:
        raise EngineUnavailableError("gone")

    with pytest.raises(EngineUnavailableError):
        EventFanout(broken).subscribe()


def test_one_that_is_far_behind_is_told_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egress.fleet.event_fanout._MAX_PENDING_EVENTS", 2)
    subscription = EventFanout(Source()).subscribe()
    for number in range(5):
        subscription.tell(Event("created", str(number)))
    assert [event.sandbox for event in subscription] == ["0", "1"]
