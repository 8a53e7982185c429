"""Calls that can be given up: what runs in a thread on behalf of a task that may be cancelled.

Theory of operation. A blocking call cannot be interrupted, but what it waits for can be ended: a command is
killed, a wait is told to stop. So whoever begins something that may take long says in the current `Scope` how
it is ended, for as long as it takes. Cancelling a scope does all that is said there, and all that is said
later at once. Outside of any scope nothing is kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class CancelScope:
    """One call, and how that is ended which it waits for."""

    def __init__(self) -> None:
        self._ends: list[Callable[[], object]] = []
        self._is_cancelled = False
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """End what the call waits for, now and later."""
        with self._lock:
            self._is_cancelled = True
            ends = list(self._ends)
        for end in ends:
            end()

    @contextmanager
    def _holding(self, end: Callable[[], object]) -> Iterator[None]:
        with self._lock:
            is_late = self._is_cancelled
            self._ends.append(end)
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
    """Say how that is ended which is waited for here."""
    scope = _current.get()
    if scope is None:
        yield
        return
    with scope._holding(end):  # noqa: SLF001 - the two are one
        yield


def is_cancellable() -> bool:
    """Whether the call may be given up before it is over."""
    return _current.get() is not None


class CancellableEvent:
    """Something that happens once; waiting for it can be given up."""

    def __init__(self) -> None:
        self._has_come = False
        self._changed = threading.Condition()

    def is_set(self) -> bool:
        return self._has_come

    def set(self) -> None:
        """It happens now."""
        with self._changed:
            self._has_come = True
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it; whether it has come. It may not have, where the wait took too long or was given up."""
        is_given_up = False

        def give_up() -> None:
            nonlocal is_given_up
            with self._changed:
                is_given_up = True
                self._changed.notify_all()

        with cancelled_by(give_up), self._changed:
            self._changed.wait_for(lambda: self._has_come or is_given_up, timeout)
            return self._has_come
