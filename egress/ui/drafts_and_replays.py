"""Drafts, replays and suggestions as text for a page. This module writes no file and changes no rule.

Reading many lines takes long, so the work checks a deadline and gives up. A page that gave up says so and
shows no partial result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from egress.review import LogEntry
from egress.review.drafting import (
    Replay,
    RuleDraft,
    Suggestion,
    TimeRange,
    Traffic,
    draft,
    read,
    replay,
    suggest_for_line,
)
from egress.review.index_pool import TooSlowError
from egress.rules.decide.policy import Policy
from egress.ui.rulebook import RuleBook

DRAFT_TIMEOUT = 20.0
"""Seconds for reading and computing together."""
MAX_KINDS = 10_000
"""Loading a draft cannot be interrupted, so this bounds its size."""


@dataclass(frozen=True, slots=True)
class TrafficSelection:
    """The log, time range and profile to read lines for."""

    log: Path
    index: Path | None
    """Index path, if not beside the log. Parts that the index knows to be older are skipped."""
    since: str
    profile: str
    """Empty: any profile."""


def draft_rules(wanted: TrafficSelection, rules: RuleBook, now: int) -> tuple[RuleDraft, tuple[str, ...]]:
    """Draft a rule file from allowed traffic, and list the traffic that it does not cover.

    Raises `UsageError`, `UnreadableError`, `TooSlowError`.
    """
    check = timeout_check(time.monotonic)
    traffic, missing = _traffic(wanted, now, check)
    return draft(traffic, rules.policy, now, check), missing


def replay_traffic(wanted: TrafficSelection, policy: Policy, now: int) -> tuple[Replay, tuple[str, ...]]:
    """Decide past traffic again by these rules. Raises as `draft_rules`."""
    check = timeout_check(time.monotonic)
    traffic, missing = _traffic(wanted, now, check)
    return replay(traffic, policy, now, check), missing


def suggest_rule(entry: LogEntry, rules: RuleBook, now: int) -> Suggestion | None:
    """Suggest a rule change that allows a denied request; None without a request or without rules."""
    # The rules of now, not those of the denial: a suggestion has to fit the current files.
    found = suggest_for_line(entry, rules.sources, rules.policy, now) if rules.policy else None
    return found.suggestion if found else None


def _traffic(
    wanted: TrafficSelection, now: int, check: Callable[[], None]
) -> tuple[Traffic, tuple[str, ...]]:
    span = TimeRange.of(wanted.since, now)
    # The deadline covers the reading, too: in a large log this is the slow part.
    lines = until_timeout(read(wanted.log, span, wanted.index), check)
    traffic = Traffic.of(lines, wanted.profile or None, MAX_KINDS)
    return traffic, traffic.missing(span.odd)


def timeout_check(clock: Callable[[], float], seconds: float = DRAFT_TIMEOUT) -> Callable[[], None]:
    """Return a function to call between steps. It raises `TooSlowError` after the deadline."""
    end = clock() + seconds

    def check() -> None:
        if clock() > end:
            hint = "shorten the period, or use `egress rules draft` or `egress rules replay`: no timeout"
            raise TooSlowError("too much traffic for this page", hint)

    return check


def until_timeout[T](items: Iterable[T], check: Callable[[], None]) -> Iterator[T]:
    """Yield the items, and check the deadline every 100 items."""
    for number, item in enumerate(items):
        # Asking the clock for every line would slow the reading down.
        if not number % 100:
            check()
        yield item
