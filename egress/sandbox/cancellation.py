"""Cancellation of blocking calls that run in a thread for an asyncio task.

Theory of operation. A blocking call cannot be interrupted, but the thing it waits for can be ended: a command
is killed, a wait is woken. So code that may block registers with the current `CancelScope` how to end its
wait. Cancelling a scope calls everything that is registered, and later registrations immediately. Outside of
a scope nothing is registered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class CancelScope:
    """A call, and the ways to end its waits."""

    def __init__(self) -> None:
        self._ends: list[Callable[[], object]] = []
        self._is_cancelled = False
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """End the current waits of the call, and all later ones."""
        with self._lock:
            self._is_cancelled = True
            ends = list(self._ends)
        # Outside of the lock: an end may wake a thread that takes it.
        for end in ends:
            end()

    @contextmanager
    def _holding(self, end: Callable[[], object]) -> Iterator[None]:
        with self._lock:
            is_late = self._is_cancelled
            self._ends.append(end)
        # Cancelled before the registration: the wait has to end immediately.
        if is_late:
            end()
        try:
            yield
        finally:
            with self._lock:
                self._ends.remove(end)


_current: ContextVar[CancelScope | None] = ContextVar("egress_scope", default=None)


@contextmanager
def enter_scope(scope: CancelScope) -> Iterator[None]:
    """Make a scope the current one of this thread."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def cancelled_by(end: Callable[[], object]) -> Iterator[None]:
    """Register how to end the wait inside this context."""
    scope = _current.get()
    if scope is None:
        yield
        return
    with scope._holding(end):  # noqa: SLF001 - both belong together
        yield


def is_cancellable() -> bool:
    """Return whether the current call can be cancelled."""
    return _current.get() is not None


class CancellableEvent:
    """An event whose waits can be cancelled."""

    def __init__(self) -> None:
        self._has_come = False
        self._changed = threading.Condition()

    def is_set(self) -> bool:
        return self._has_come

    def set(self) -> None:
        """Set the event."""
        with self._changed:
            self._has_come = True
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event; returns whether it is set. It may not be, after a timeout or a cancellation."""
        is_given_up = False

        def give_up() -> None:
            nonlocal is_given_up
            with self._changed:
                is_given_up = True
                self._changed.notify_all()

        with cancelled_by(give_up), self._changed:
            self._changed.wait_for(lambda: self._has_come or is_given_up, timeout)
            return self._has_come
