"""Sends the events of a runtime to any number of subscribers, each of which may leave at any time.

A runtime gives one blocking stream of events, and its reader cannot leave before the next event. So one
thread reads, as long as a subscriber exists, and passes events on.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, Self

from egress.logger import EventLogger
from egress.runtime.spec import Event

_log = EventLogger(__name__)

_MAX_PENDING_EVENTS: Final = 10_000
"""Events that wait for one subscriber; a subscriber that is further behind is dropped."""

EventSource = Callable[[], AbstractContextManager[Iterator[Event]]]


class EventSubscription:
    """A subscriber: an iterator of events, and a context that ends it. Any thread may close it."""

    def __init__(self, leave: Callable[[EventSubscription], None]) -> None:
        self._leave = leave
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events.get, None)

    def tell(self, event: Event) -> None:
        if self._events.qsize() < _MAX_PENDING_EVENTS:
            self._events.put(event)
        else:
            self.close()

    def close(self) -> None:
        """Unsubscribe, and end the iteration."""
        self._leave(self)
        self._events.put(None)


class EventFanout:
    """The subscribers of one source."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._listeners: list[EventSubscription] = []
        self._is_read = False

    def subscribe(self) -> EventSubscription:
        """Subscribe to events from now on. Raises what keeps the source from being read."""
        subscription = EventSubscription(self._unsubscribe)
        with self._lock:
            if not self._is_read:
                self._begin()
            self._listeners.append(subscription)
        return subscription

    def close(self) -> None:
        """End all subscriptions. Events that arrive later are dropped."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.close()

    def _begin(self) -> None:
        context = self._source()
        # Entered here and not in the thread: the caller gets the error, and no event after `subscribe` is
        # lost.
        stream = context.__enter__()
        self._is_read = True
        threading.Thread(
            target=self._read, args=(context, stream), name="egress-fleet-events", daemon=True
        ).start()

    def _read(self, context: AbstractContextManager[Iterator[Event]], stream: Iterator[Event]) -> None:
        try:
            for event in stream:
                with self._lock:
                    listeners = list(self._listeners)
                for listener in listeners:
                    listener.tell(event)
        except Exception as error:  # noqa: BLE001 - an engine that goes away raises errors of any kind
            _log.info("events.ended", cause=type(error).__name__)
        finally:
            with self._lock:
                self._is_read = False
            self.close()
            context.__exit__(None, None, None)

    def _unsubscribe(self, subscription: EventSubscription) -> None:
        with self._lock:
            if subscription in self._listeners:
                self._listeners.remove(subscription)
