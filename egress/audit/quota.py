"""How much of the log a sandbox may fill in one UTC day. Pure: the day is passed in.

The count begins anew when the process does. A clock that is put back gives nobody a second day.
"""

from __future__ import annotations


class Quota:
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
