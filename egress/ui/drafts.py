"""Drafts, replays and suggestions for a page: as text to copy. Nothing is written, and no rule is changed.

Reading the lines of a long time takes long, so the work itself watches the clock and gives up; a page
that gave up says so and shows nothing half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from egress.policy.shipped import preset_texts
from egress.review import Entry
from egress.review.drafting import (
    Draft,
    Replay,
    Since,
    Suggestion,
    Traffic,
    draft,
    read,
    replay,
    seen,
    suggest,
)
from egress.rules.policy import Policy
from egress.ui.desk import TooSlowError
from egress.ui.rulebook import Rules

SECONDS = 20.0
"""For reading and working out together."""
MOST_KINDS = 10_000
"""Loading a draft cannot be broken off, and this bounds what there is to load."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines: of which log, since when, of whom."""

    log: Path
    index: Path | None
    """Where it is not beside the log: what that knows to be older is not read."""
    since: str
    profile: str
    """Empty for any."""


def drafted(wanted: Wanted, rules: Rules, now: int) -> tuple[Draft, tuple[str, ...]]:
    """A rule file from what was seen to pass, and what is not in it.

    Raises `UsageError`, `UnreadableError`, `TooSlowError`.
    """
    late = patience(time.monotonic)
    traffic, missing = _traffic(wanted, now, late)
    return draft(traffic, rules.policy, now, late), missing


def replayed(wanted: Wanted, policy: Policy, now: int) -> tuple[Replay, tuple[str, ...]]:
    """What was seen, decided by these rules, and what was not. Raises as `drafted`."""
    late = patience(time.monotonic)
    traffic, missing = _traffic(wanted, now, late)
    return replay(traffic, policy, now, late), missing


def suggested(entry: Entry, rules: Rules, now: int) -> Suggestion | None:
    """What would allow the request of a line; None where the line is about none, or there are no rules."""
    one = seen(entry.fields)
    if one is None or rules.policy is None:
        return None
    return suggest(one, entry.text("address"), rules.sources, preset_texts(), now)


def _traffic(wanted: Wanted, now: int, late: Callable[[], None]) -> tuple[Traffic, tuple[str, ...]]:
    span = Since.of(wanted.since, now)
    lines = until_late(read(wanted.log, span, wanted.index), late)
    traffic = Traffic.of(lines, wanted.profile or None, MOST_KINDS)
    return traffic, traffic.missing(span.odd)


def patience(clock: Callable[[], float], seconds: float = SECONDS) -> Callable[[], None]:
    """To be called between the steps of the work: raises `TooSlowError` when there is no time left."""
    end = clock() + seconds

    def late() -> None:
        if clock() > end:
            hint = "take a shorter time, or `egress rules draft` and `egress rules replay`, which wait"
            raise TooSlowError("there is too much in these lines for a page", hint)

    return late


def until_late[T](items: Iterable[T], late: Callable[[], None]) -> Iterator[T]:
    """The items, as long as there is time."""
    for number, item in enumerate(items):
        if not number % 100:
            late()
        yield item
