"""The only module that reads the clock of the machine. Every other module is handed a `Clock`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The time, as the proxy reads it."""

    def now(self) -> int:
        """UTC in whole seconds: what rules and expiries are compared with."""
        ...

    def now_ns(self) -> int:
        """UTC in nanoseconds: what records are stamped with."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump: what durations and limits are measured with."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> int:
        return int(time.time())  # noqa: TID251 - this is the clock that everything else is handed

    # The functions of the machine themselves: every exchange calls them several times.
    now_ns = staticmethod(time.time_ns)  # noqa: TID251 - same
    monotonic = staticmethod(time.monotonic)
