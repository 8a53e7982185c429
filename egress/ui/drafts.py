"""Drafts, replays and suggestions for a page: as text to copy. Nothing is written, and no rule is changed.

Reading the lines of a long time takes long, so the work itself watches the clock and gives up; a page
that gave up says so and shows nothing half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from egress.policy.bundled_presets import preset_texts
from egress.review import LogEntry
from egress.review.drafting import (
    Replay,
    RuleDraft,
    Suggestion,
    TimeRange,
    Traffic,
    draft,
    observe,
    read,
    replay,
    suggest,
)
from egress.rules.decide.policy import Policy
from egress.ui.index_pool import TooSlowError
from egress.ui.rulebook import RuleBook

DRAFT_TIMEOUT = 20.0
"""For reading and working out together."""
MAX_KINDS = 10_000
"""Loading a draft cannot be broken off, and this bounds what there is to load."""


@dataclass(frozen=True, slots=True)
class TrafficSelection:
    """Which lines: of which log, since when, of whom."""

    log: Path
    index: Path | None
    """Where it is not beside the log: what that knows to be older is not read."""
    since: str
    profile: str
    """Empty for any."""


def draft_rules(wanted: TrafficSelection, rules: RuleBook, now: int) -> tuple[RuleDraft, tuple[str, ...]]:
    """A rule file from what was seen to pass, and what is not in it.

    Raises `UsageError`, `UnreadableError`, `TooSlowError`.
    """
    late = timeout_check(time.monotonic)
    traffic, missing = _traffic(wanted, now, late)
    return draft(traffic, rules.policy, now, late), missing


def replay_traffic(wanted: TrafficSelection, policy: Policy, now: int) -> tuple[Replay, tuple[str, ...]]:
    """What was seen, decided by these rules, and what was not. Raises as `drafted`."""
    late = timeout_check(time.monotonic)
    traffic, missing = _traffic(wanted, now, late)
    return replay(traffic, policy, now, late), missing


def suggest_rule(entry: LogEntry, rules: RuleBook, now: int) -> Suggestion | None:
    """What would allow the request of a line; None where the line is about none, or there are no rules."""
    one = observe(entry.fields)
    if one is None or rules.policy is None:
        return None
    return suggest(one, entry.text("address"), rules.sources, preset_texts(), now)


def _traffic(wanted: TrafficSelection, now: int, late: Callable[[], None]) -> tuple[Traffic, tuple[str, ...]]:
    span = TimeRange.of(wanted.since, now)
    lines = until_late(read(wanted.log, span, wanted.index), late)
    traffic = Traffic.of(lines, wanted.profile or None, MAX_KINDS)
    return traffic, traffic.missing(span.odd)


def timeout_check(clock: Callable[[], float], seconds: float = DRAFT_TIMEOUT) -> Callable[[], None]:
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
