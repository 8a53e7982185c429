"""The limits of snapshots: how much space they take together, how many are kept, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from egress.errors import UsageError
from egress.rules.language.quantities import parse_duration, parse_size
from egress.rules.language.report import MeaningError

QUOTA_VARIABLE: Final = "EGRESS_SNAPSHOT_QUOTA"
COUNT_VARIABLE: Final = "EGRESS_SNAPSHOT_COUNT"
AGE_VARIABLE: Final = "EGRESS_SNAPSHOT_AGE"
_MAX_COUNT: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """The limits of the snapshots of one user."""

    max_bytes: int = 10 * 1024**3
    """Bytes of all together. A snapshot beyond them is refused."""
    max_count: int = 100
    """The number that is kept. A further one takes the place of the oldest."""
    max_age: int | None = None
    """Seconds after which a snapshot is deleted when the next one is taken; None keeps all."""


DEFAULT_SNAPSHOT_LIMITS: Final = SnapshotLimits()


def read_limits(environ: Mapping[str, str]) -> SnapshotLimits:
    """Read the limits from variables. Raises `UsageError` with the name of a wrong one."""
    quota, count, age = (environ.get(name, "") for name in (QUOTA_VARIABLE, COUNT_VARIABLE, AGE_VARIABLE))
    usual = DEFAULT_SNAPSHOT_LIMITS
    name = QUOTA_VARIABLE
    try:
        max_bytes = parse_size(int(quota) if quota.isdecimal() else quota) if quota else usual.max_bytes
        name = AGE_VARIABLE
        max_age = parse_duration(int(age) if age.isdecimal() else age) if age else usual.max_age
    except MeaningError as error:
        raise UsageError(f"{name}: {error.message}", error.hint) from None
    return SnapshotLimits(
        max_bytes=max_bytes, max_count=_read_count(count) if count else usual.max_count, max_age=max_age
    )


def _read_count(text: str) -> int:
    # Length first: Python converts no number of any length.
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 0 < int(text) <= _MAX_COUNT):
        raise UsageError(f"{COUNT_VARIABLE}: this is not a number from 1 to {_MAX_COUNT}", "write a number")
    return int(text)
