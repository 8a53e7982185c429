"""The clock of the audit log, and its timestamp format. The clock is passed in, so tests control the time."""

from __future__ import annotations

from typing import Protocol


class AuditClock(Protocol):
    """A wall clock, which may jump, and a monotonic clock."""

    def now_ns(self) -> int:
        """UTC nanoseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds since any fixed moment; never less than before."""
        ...


def format_timestamp(moment: int) -> str:
    """Format UTC nanoseconds as in a log line."""
    second, rest = divmod(moment, 1_000_000_000)
    return f"{date_and_time(second)}.{rest // 1000:06d}Z"


def date_and_time(second: int) -> str:
    """Format UTC seconds, without a fraction."""
    # Not `datetime`, which raises for years after 9999: a wrong clock must not stop the audit.
    days, inside = divmod(second, 86_400)
    year, month, day = _civil(days)
    hours, left = divmod(inside, 3600)
    return f"{year:04d}-{month:02d}-{day:02d}T{hours:02d}:{left // 60:02d}:{left % 60:02d}"


def _civil(days: int) -> tuple[int, int, int]:
    """Convert days since 1970-01-01 to a date, in a calendar whose years begin in March."""
    era, of_era = divmod(days + 719_468, 146_097)
    of_400 = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * of_400 + of_400 // 4 - of_400 // 100)
    from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9
    return era * 400 + of_400 + (month <= 2), month, day
