"""What the audit needs of a clock. It is passed in: nothing here asks the machine for the time."""

from __future__ import annotations

from typing import Protocol


class AuditClock(Protocol):
    """The time of day, which may jump, and a time that only moves on."""

    def now_ns(self) -> int:
        """UTC nanoseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds since any fixed moment; never less than before."""
        ...


class TimestampFormatter:
    """The time as it stands in a line: RFC 3339, UTC, microseconds."""

    __slots__ = ("_clock", "_second", "_text")

    def __init__(self, clock: AuditClock) -> None:
        self._clock = clock
        self._second = -1
        self._text = ""

    def now(self) -> str:
        """`2026-03-01T09:30:00.000123Z`."""
        return self.at(self._clock.now_ns())

    def at(self, moment: int) -> str:
        """The same for any UTC nanoseconds."""
        second, rest = divmod(moment, 1_000_000_000)
        if second != self._second:
            self._second = second
            self._text = _date_and_time(second)
        return f"{self._text}.{rest // 1000:06d}Z"


def format_timestamp(moment: int) -> str:
    """UTC nanoseconds as they stand in a line."""
    second, rest = divmod(moment, 1_000_000_000)
    return f"{_date_and_time(second)}.{rest // 1000:06d}Z"


def _date_and_time(second: int) -> str:
    # By hand: a clock that is far off must not be what stops the audit.
    days, inside = divmod(second, 86_400)
    year, month, day = _civil(days)
    hours, left = divmod(inside, 3600)
    return f"{year:04d}-{month:02d}-{day:02d}T{hours:02d}:{left // 60:02d}:{left % 60:02d}"


def _civil(days: int) -> tuple[int, int, int]:
    """The date of a day counted from 1970-01-01, in a calendar whose years begin in March."""
    era, of_era = divmod(days + 719_468, 146_097)
    of_400 = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * of_400 + of_400 // 4 - of_400 // 100)
    from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9
    return era * 400 + of_400 + (month <= 2), month, day
