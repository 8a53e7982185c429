"""What happens to sandboxes, told to any number of listeners, each of whom can leave at any time.

A runtime tells it in one stream, and whoever reads that is stuck in it until something happens. So one thread
reads, as long as anybody listens, and hands on.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, Self

import structlog

from egress.runtime.spec import Event

_log = structlog.get_logger(__name__)

_MAX_PENDING_EVENTS: Final = 10_000
"""Events that wait for a listener; one that is further behind is told no more."""

EventSource = Callable[[], AbstractContextManager[Iterator[Event]]]


class EventSubscription:
    """One listener: an iterator of events, and a context that ends it. May be closed by any thread."""

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
        """Listen no longer: whoever iterates comes to the end."""
        self._leave(self)
        self._events.put(None)


class EventFanout:
    """All listeners of one source."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._listeners: list[EventSubscription] = []
        self._is_read = False

    def subscribe(self) -> EventSubscription:
        """Hear of all that happens after this has returned. Raises what keeps the source from being read."""
        subscription = EventSubscription(self._unsubscribe)
        with self._lock:
            if not self._is_read:
                self._begin()
            self._listeners.append(subscription)
        return subscription

    def close(self) -> None:
        """End all listeners. What is read by then is told to nobody."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.close()

    def _begin(self) -> None:
        context = self._source()
        # Here and not in the thread: what fails is for whoever asked, and nothing is missed.
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
        except Exception as error:  # noqa: BLE001 - of an engine that goes, of any kind
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
