"""Folding: a sandbox that is refused again and again does not fill the disk with it.

The first refusals of a second are written one by one; those beyond are counted, and each code that was
counted gives one record when the second is over. Pure: the second is passed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

MAX_SINGLE_REFUSALS = 20
"""How many refusals of a sandbox are written one by one in a second."""
OVER_QUOTA_INTERVAL = 60
"""A sandbox that has used up its quota gets its counted records once in so many seconds."""


@dataclass(frozen=True, slots=True)
class FoldedRefusals:
    """How often one sandbox was refused for one reason, beyond what was written."""

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
        """Refusals that were counted and have not been handed out."""

    def admit(self, sandbox: str, code: str, now: float, began: str, *, is_slow: bool = False) -> bool:
        """Whether this refusal is to be written by itself; otherwise it has been counted."""
        window = self._windows.get(sandbox)
        if window is None or now >= window.ends:
            if window is not None:
                self._close(sandbox, window)
            window = self._windows[sandbox] = _Window(now + (OVER_QUOTA_INTERVAL if is_slow else 1), began)
        if window.whole < MAX_SINGLE_REFUSALS and not is_slow:
            window.whole += 1
            return True
        window.counts[code] = window.counts.get(code, 0) + 1
        self.waiting += 1
        return False

    def take_due(self, now: float) -> list[FoldedRefusals]:
        """Hand out the counts of every second that is over by now."""
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
            # Where nobody asks for a while, as on a full disk, seconds become one record.
            if before is not None:
                self._over[sandbox, code] = replace(before, count=before.count + count)
            else:
                self._over[sandbox, code] = FoldedRefusals(sandbox, code, count, window.began)


# How much of the log a sandbox may fill in one UTC day. Pure: the day is passed in.
#
# The count begins anew when the process does. A clock that is put back gives nobody a second day.
class DailyQuota:
    """Bytes that each sandbox has written today; a limit of 0 is none."""

    __slots__ = ("_day", "_spent", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._day = 0
        self._spent: dict[str, int] = {}

    def spend(self, sandbox: str, size: int, day: int) -> bool:
        """Count these bytes; true when just they used the quota up."""
        self._turn(day)
        before = self._spent.get(sandbox, 0)
        self._spent[sandbox] = before + size
        return before < self.limit <= before + size

    def is_spent(self, sandbox: str, day: int) -> bool:
        """Whether the sandbox has used up its quota of this day."""
        self._turn(day)
        return self._spent.get(sandbox, 0) >= self.limit > 0

    def used(self, sandbox: str) -> int:
        return self._spent.get(sandbox, 0)

    def _turn(self, day: int) -> None:
        if day > self._day:
            self._day = day
            self._spent.clear()
