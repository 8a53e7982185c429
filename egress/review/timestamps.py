"""Moments: the times in the lines, and those that a person types.

Everything is UTC microseconds since 1970. Nothing here asks the machine for the time: who wants "two
hours ago" says what time it is now.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from egress.errors import UsageError

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AGO = re.compile(r"([0-9]{1,6})\s*([smhdw])")
_UNITS = {"s": SECOND, "m": 60 * SECOND, "h": HOUR, "d": DAY, "w": 7 * DAY}
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d):([0-5]\d)\.(\d{6})Z", re.ASCII)


class InvalidTimeError(UsageError):
    """This text is no moment."""

    code = "log.moment"


def read_moment(text: str) -> int:
    """The moment that a line names. Raises `InvalidTimeError`."""
    found = _STAMP.fullmatch(text)
    if found is None:
        raise InvalidTimeError("this is no time as it stands in a line")
    minute, seconds, microseconds = found.groups()
    # A log has many lines for each minute, so the expensive part is cached and the seconds are added.
    return _minute(minute) + int(seconds) * SECOND + int(microseconds)


@lru_cache(4096)
def _minute(text: str) -> int:
    # The pattern admits a month 13, the calendar does not.
    try:
        return _since_1970(datetime.fromisoformat(text).replace(tzinfo=UTC))
    except ValueError:
        raise InvalidTimeError("this is no time as it stands in a line") from None


def _since_1970(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def parse_typed(text: str, now: int) -> int:
    """A moment as a person gives it: `2h` ago, a date, or a time. Raises `InvalidTimeError`.

    A time without a zone is UTC, as the lines are.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        # Not before 1970: a span longer than the epoch means everything.
        return max(now - int(ago[1]) * _UNITS[ago[2]], 0)
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        hint = "write `30m`, `2h`, `7d`, `2026-03-01` or `2026-03-01T09:30:00Z`"
        raise InvalidTimeError("this is not a moment", hint) from None
    return _since_1970(found if found.tzinfo else found.replace(tzinfo=UTC))


def format_moment(moment: int) -> str:
    """A moment as text, to the second: `2026-03-01T09:30:00Z`; empty for what no calendar holds."""
    try:
        return f"{_EPOCH + timedelta(microseconds=moment):%Y-%m-%dT%H:%M:%SZ}"
    except OverflowError:
        return ""
