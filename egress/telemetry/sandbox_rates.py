"""How much of each sandbox is exported in a second: one sandbox must not crowd out the others. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

BURST_SECONDS: Final = 2.0
"""A sandbox that was quiet may send so many seconds of its rate at once."""
MAX_TRACKED_SANDBOXES: Final = 4096
_SWEEP_SECONDS: Final = 1.0


class SandboxRates:
    """A bucket of tokens for each sandbox that was active of late."""

    def __init__(self, per_second: int, monotonic: Callable[[], float]) -> None:
        self._per_second = float(per_second)
        self._most = per_second * BURST_SECONDS
        self._monotonic = monotonic
        self._left: dict[str, tuple[float, float]] = {}
        """By sandbox: what was left, and when."""
        self._swept = float("-inf")

    def take(self, sandbox: str) -> bool:
        """Count one more of this sandbox; False if it has had its share."""
        now = self._monotonic()
        left, at = self._left.get(sandbox, (self._most, now))
        left = min(self._most, left + (now - at) * self._per_second)
        if sandbox not in self._left and len(self._left) >= MAX_TRACKED_SANDBOXES:
            # Once a second at most: a look at all of them takes a millisecond of the event loop.
            if now - self._swept >= _SWEEP_SECONDS:
                self._swept = now
                self._forget_full(now)
            # More sandboxes than that in the same seconds: the queue behind this is bounded, too.
            if len(self._left) >= MAX_TRACKED_SANDBOXES:
                return True
        is_taken = left >= 1
        self._left[sandbox] = (left - 1 if is_taken else left, now)
        return is_taken

    def _forget_full(self, now: float) -> None:
        """Forget sandboxes whose bucket is full again: without an entry it is full, too."""
        self._left = {
            sandbox: (left, at)
            for sandbox, (left, at) in self._left.items()
            if left + (now - at) * self._per_second < self._most
        }
