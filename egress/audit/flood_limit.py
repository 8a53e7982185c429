"""Limits on what a sandbox can write to the log: folded refusals, and a daily quota. Pure.

The first refusals of a second are written one by one. Further refusals are counted, and each counted code
gives one record when the second is over. The caller passes the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

MAX_SINGLE_REFUSALS = 20
"""Refusals of a sandbox that are written one by one in a second."""
OVER_QUOTA_INTERVAL = 60
"""Seconds between the counted records of a sandbox over its quota."""


@dataclass(frozen=True, slots=True)
class FoldedRefusals:
    """Number of refusals of a sandbox for one reason that were not written one by one."""

    sandbox: str
    code: str
    count: int
    began: str


@dataclass(slots=True)
class _Window:
    ends: float
    began: str
    whole: int = 0
    counts: dict[str, int] = field(default_factory=dict)


class RefusalCounter:
    """The refusals of the current second, by sandbox."""

    __slots__ = ("_over", "_windows", "waiting")

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}
        self._over: dict[tuple[str, str], FoldedRefusals] = {}
        self.waiting = 0
        """Counted refusals that `take_due` has not returned yet."""

    def admit(self, sandbox: str, code: str, now: float, began: str, *, is_slow: bool = False) -> bool:
        """Return True to write this refusal by itself; otherwise count it."""
        window = self._windows.get(sandbox)
        if window is None or now >= window.ends:
            if window is not None:
                self._close(sandbox, window)
            window = self._windows[sandbox] = _Window(now + (OVER_QUOTA_INTERVAL if is_slow else 1), began)
        # A slow sandbox is over its quota, or the disk is full: none of its refusals gets a line of its own.
        if window.whole < MAX_SINGLE_REFUSALS and not is_slow:
            window.whole += 1
            return True
        window.counts[code] = window.counts.get(code, 0) + 1
        self.waiting += 1
        return False

    def take_due(self, now: float) -> list[FoldedRefusals]:
        """Return and forget the counts of every finished second."""
        for sandbox, window in [item for item in self._windows.items() if now >= item[1].ends]:
            self._close(sandbox, window)
            del self._windows[sandbox]
        handed = list(self._over.values())
        self._over.clear()
        self.waiting -= sum(folded.count for folded in handed)
        return handed

    def _close(self, sandbox: str, window: _Window) -> None:
        for code, count in window.counts.items():
            before = self._over.get((sandbox, code))
            # Without a `take_due` in between, as on a full disk, several seconds share one record.
            if before is not None:
                self._over[sandbox, code] = replace(before, count=before.count + count)
            else:
                self._over[sandbox, code] = FoldedRefusals(sandbox, code, count, window.began)


class DailyQuota:
    """Bytes that each sandbox has written in the current UTC day; limit 0 means no limit.

    A restart of the process resets the count. Setting the clock back does not: a sandbox gets no second day.
    """

    __slots__ = ("_day", "_spent", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._day = 0
        self._spent: dict[str, int] = {}

    def spend(self, sandbox: str, size: int, day: int) -> bool:
        """Count bytes. Return True if these bytes reach the limit."""
        self._turn(day)
        before = self._spent.get(sandbox, 0)
        self._spent[sandbox] = before + size
        # True once, when the limit is crossed: the caller writes one line about it and not one per request.
        return before < self.limit <= before + size

    def is_spent(self, sandbox: str, day: int) -> bool:
        """True if the sandbox has used up its quota of the day."""
        self._turn(day)
        return self._spent.get(sandbox, 0) >= self.limit > 0

    def used(self, sandbox: str) -> int:
        return self._spent.get(sandbox, 0)

    def _turn(self, day: int) -> None:
        if day > self._day:
            self._day = day
            self._spent.clear()
