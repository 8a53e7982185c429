"""Parse quantities: sizes, rates, durations, moments.

Each of the parsers reads one kind and raises `MeaningError` with the spelling it expects.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from egress.rules.language.report import MeaningError
from egress.types import Rate

# Digits are bounded, so that no number becomes unreasonably large.
_SIZE = re.compile(r"([0-9]{1,15}) ?(KiB|MiB|GiB)?")
_SIZE_UNITS = {None: 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_RATE = re.compile(r"([0-9]{1,9}) ?/ ?(second|minute|hour)")
_RATE_SECONDS = {"second": 1, "minute": 60, "hour": 3600}
_DURATION = re.compile(r"([0-9]{1,9}) ?(s|m|h|d)")
_DURATION_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# `fromisoformat` takes more, such as weeks and moments without a zone, whose meaning is a guess.
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_MOMENT_HINT = (
    "write a day like 2027-01-31 (through that day, UTC) or a moment like 2027-01-31T18:00:00+01:00"
)


def parse_size(value: int | str) -> int:
    """Return bytes: from an integer, or from a number with KiB, MiB or GiB."""
    if isinstance(value, int):
        if value >= 0:
            return value
        raise MeaningError("a size cannot be negative")
    match = _SIZE.fullmatch(value)
    if match is None:
        raise MeaningError(
            "this is not a size", "write bytes as an integer, or a number with KiB, MiB or GiB"
        )
    return int(match[1]) * _SIZE_UNITS[match[2]]


def parse_rate(value: str, burst: int | None) -> Rate:
    """Return the rate of `N/second`, `N/minute` or `N/hour`; the burst defaults to N."""
    match = _RATE.fullmatch(value)
    if match is None:
        raise MeaningError("this is not a rate", "write N/second, N/minute or N/hour")
    count = int(match[1])
    # A limit of zero looks like a deny but would be counted as one.
    if count == 0:
        raise MeaningError("a rate of zero allows nothing", "use a deny rule to close a host or path")
    return Rate(count, _RATE_SECONDS[match[2]], burst or count)


def parse_duration(value: int | str) -> int:
    """Return seconds: from an integer, or from a number with s, m, h or d."""
    if isinstance(value, int):
        seconds = value
    else:
        match = _DURATION.fullmatch(value)
        if match is None:
            raise MeaningError(
                "this is not a duration", "write seconds as an integer, or a number with s, m, h or d"
            )
        seconds = int(match[1]) * _DURATION_SECONDS[match[2]]
    if seconds <= 0:
        raise MeaningError("a duration must be at least one second")
    return seconds


def duration_text(seconds: int) -> str:
    """Return a duration as `1h 30m`."""
    parts = [
        (seconds // 86400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "m"),
        (seconds % 60, "s"),
    ]
    return " ".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def parse_expiry(value: str) -> int:
    """Return the first second, in UTC, after the expiry. A bare day counts as a whole."""
    return parse_moment(value) + (_DURATION_SECONDS["d"] if _DAY.fullmatch(value) else 0)


def parse_moment(value: str) -> int:
    """Return a point in time as UTC seconds; a bare day means its first second."""
    if _DAY.fullmatch(value):
        value += "T00:00:00+00:00"
    elif not _MOMENT.fullmatch(value):
        raise MeaningError("this is not a day or moment", _MOMENT_HINT)
    return int(_parsed(value.upper()).timestamp())


def _parsed(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise MeaningError("there is no such day or moment", _MOMENT_HINT) from None
