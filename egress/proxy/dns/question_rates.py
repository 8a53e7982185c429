"""How many questions may be asked in a second: at one listener, and by each sandbox that shares it."""

from __future__ import annotations

from typing import Final

from egress.proxy.clock import Clock

MAX_RATES: Final = 4096
"""Sandboxes whose questions are counted before those that rest are forgotten."""


class QuestionRate:
    """So many questions a second, and a burst of them at once."""

    __slots__ = ("_burst", "_clock", "_cost", "_free_at")

    def __init__(self, clock: Clock, per_second: int, burst: int) -> None:
        self._clock = clock
        self._cost = 1 / per_second
        self._burst = burst / per_second
        self._free_at = float("-inf")

    def wait(self) -> float:
        """Seconds until the next question may be taken; 0 is now."""
        return max(0.0, self._free_at - self._burst + self._cost - self._clock.monotonic())

    @property
    def is_rested(self) -> bool:
        """Whether it is as if no question had ever come."""
        return self._free_at <= self._clock.monotonic()

    def spend(self) -> None:
        self._free_at = max(self._free_at, self._clock.monotonic()) + self._cost


class QuestionRates:
    """The questions of each sandbox, where several ask at one listener."""

    __slots__ = ("_burst", "_clock", "_per_second", "_rates")

    def __init__(self, clock: Clock, per_second: int, burst: int) -> None:
        self._clock = clock
        self._per_second = per_second
        self._burst = burst
        self._rates: dict[str, QuestionRate] = {}

    def wait(self, sandbox: str) -> float:
        """Seconds until this sandbox may ask again; 0 is now."""
        return self._of(sandbox).wait()

    def spend(self, sandbox: str) -> bool:
        """Count a question; return whether the sandbox may ask it now."""
        rate = self._of(sandbox)
        if rate.wait():
            return False
        rate.spend()
        return True

    def _of(self, sandbox: str) -> QuestionRate:
        rate = self._rates.get(sandbox)
        if rate is None:
            if len(self._rates) >= MAX_RATES:
                # Sandboxes come and go; whoever has rested long enough has all its questions again anyway.
                self._rates = {name: each for name, each in self._rates.items() if not each.is_rested}
            rate = self._rates[sandbox] = QuestionRate(self._clock, self._per_second, self._burst)
        return rate
