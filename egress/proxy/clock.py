"""The one place that asks what time it is. Everything else is handed a `Clock`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the proxy needs to know of time."""

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

    def now_ns(self) -> int:
        return time.time_ns()  # noqa: TID251 - same

    # As it is: it is asked several times for every exchange.
    monotonic = staticmethod(time.monotonic)
