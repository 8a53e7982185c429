"""The stage of a call that takes a while, told to whoever waits for it.

A caller that wants to know enters `reporting_stages`; the code below it tells each stage, and is not told
whether anybody hears it. The caller's thread is meant, and threads that it starts with its context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_listener: Final[ContextVar[Callable[[str], object] | None]] = ContextVar("egress_stages", default=None)


@contextmanager
def reporting_stages(listener: Callable[[str], object]) -> Iterator[None]:
    """Tell the listener each stage of what the context does."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def is_reported() -> bool:
    """Whether somebody is told of stages."""
    return _listener.get() is not None


def note_stage(text: str) -> None:
    """Tell that a stage begins, such as `saving the image`. The text names nothing of a sandbox."""
    listener = _listener.get()
    if listener is not None:
        listener(text)
