"""Time that a test lets pass: what is waited for in vain is over at once, and nothing is over too early.

    with Passing() as clock:
        clock.skip(3600)

Everything that measures durations goes by it, the running loop and the proxy alike. It passes as it always
does, too. The time of day stays what it is.
"""

from __future__ import annotations

import asyncio
from typing import Self

import pytest

from egress.proxy.clock import SystemClock


class FastClock(SystemClock):
    """A clock whose durations can be set forth."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Self:
        self._patch.setattr(asyncio.get_running_loop(), "time", self.monotonic)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead

    def skip(self, seconds: float) -> None:
        """Let so many seconds be over."""
        self._ahead += seconds
