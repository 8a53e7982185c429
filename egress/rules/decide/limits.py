"""Count requests and connections of a sandbox against the limits of a decision.

Theory of operation. Request rates use the generic cell rate algorithm: for each sandbox and place a
single number is kept, the *theoretical arrival time*, when the requests so far would all have come
at the steady pace. A request moves it one interval ahead and passes while it stays within `burst`
intervals of now. All limits that a decision names must pass; a refused request moves none.

Functions here neither change their input nor read a clock. Each returns the changes to write back, so that
a test can play any clock:

    taken = take(state, sandbox, decision.effects.limits, now)
    state.update(taken.changes)

Times are whole nanoseconds of one monotonic clock. The interval is rounded up, so rounding never
lets one request more through. Should the clock jump back, or a reload lower a rate, a kept time can
lie further ahead than a spent burst explains. It is then pulled back to exactly a spent burst: the
jump gives no request away, and costs at most the wait of one interval. A jump forward is time that
passed; nothing here could tell it apart.

A limit that makes no sense (no count, no burst, no period) refuses everything; the loader of the
rules reports it long before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from egress.types import Limit, Place, Rate

NANOSECONDS_PER_SECOND = 1_000_000_000

Key = tuple[str, Place]
"""Sandbox and place of the limit: the pair that is counted together."""

Arrivals = Mapping[Key, int]
"""The theoretical arrival time of each key, in nanoseconds; a missing key has a full burst."""

Counts = Mapping[Key, int]
"""Number of open connections of each key; a missing key has none."""


@dataclass(frozen=True, slots=True)
class LimitResult:
    """The result of asking for one request or one connection.

    Write `changes` back in either case: a refusal takes nothing, it only pulls back times that a jump of
    the clock left ahead. `refused_by` is the place of the limit that refused; of several, the one with the
    longest wait. `wait` is in nanoseconds, and zero where waiting does not help.
    """

    allowed: bool
    changes: Mapping[Key, int] = field(default_factory=dict)
    refused_by: Place | None = None
    wait: int = 0

    @property
    def retry_after(self) -> int:
        """Whole seconds until the next try, for the Retry-After header."""
        return -(-self.wait // NANOSECONDS_PER_SECOND)


def take_request(arrivals: Arrivals, sandbox: str, limits: Iterable[Limit], now: int) -> LimitResult:
    """Ask for one request of this sandbox; it passes when every rate of every limit passes."""
    passed: dict[Key, int] = {}
    pulled_back: dict[Key, int] = {}
    refusals: list[tuple[int, Place]] = []
    # Ask every limit before charging any, so that a refused request costs nothing.
    for place, rate in _request_rates(limits):
        key = (sandbox, place)
        kept = arrivals.get(key, now)
        interval, full = _pace(rate)
        start = min(max(kept, now), now + full)
        passed[key] = start + interval
        if start < kept:
            pulled_back[key] = start
        if start + interval > now + full:
            refusals.append((start + interval - now - full, place))
    if refusals:
        # The longest wait counts: before its end that limit would refuse again.
        wait, place = max(refusals)
        return LimitResult(allowed=False, changes=pulled_back, refused_by=place, wait=wait)
    return LimitResult(allowed=True, changes=passed)


def idle_keys(arrivals: Arrivals, now: int) -> list[Key]:
    """Return the keys that can be forgotten: without them every answer from `now` on is the same."""
    return [key for key, arrival in arrivals.items() if arrival <= now]


def acquire_connection(counts: Counts, sandbox: str, limits: Iterable[Limit]) -> LimitResult:
    """Ask for one connection of this sandbox; it opens when every limit still has room."""
    changes: dict[Key, int] = {}
    # Counts are returned, not written: a refusal by a later limit must take no connection.
    for place, maximum in _connection_limits(limits):
        key = (sandbox, place)
        changes[key] = counts.get(key, 0) + 1
        if changes[key] > maximum:
            return LimitResult(allowed=False, refused_by=place)
    return LimitResult(allowed=True, changes=changes)


def release_connection(counts: Counts, sandbox: str, limits: Iterable[Limit]) -> dict[Key, int]:
    """Return the counts after a connection closed; a count of zero means the key can be forgotten.

    Pass the limits that were acquired, even if a reload has changed the rules since. One release too
    many leaves the count at zero: it never frees a connection that is still open.
    """
    keys = ((sandbox, place) for place, _ in _connection_limits(limits))
    return {key: max(0, counts.get(key, 0) - 1) for key in keys}


def smallest_limit(bounds: Iterable[int | None]) -> int | None:
    """Return the smallest of several limits; None if none is set."""
    return min((bound for bound in bounds if bound is not None), default=None)


# A limit named twice counts once: both times the same key gets the same value.


def _request_rates(limits: Iterable[Limit]) -> Iterator[tuple[Place, Rate]]:
    return ((limit.place, limit.requests) for limit in limits if limit.requests is not None)


def _connection_limits(limits: Iterable[Limit]) -> Iterator[tuple[Place, int]]:
    return ((limit.place, limit.connections) for limit in limits if limit.connections is not None)


def _pace(rate: Rate) -> tuple[int, int]:
    """Return the interval between two requests, and how far ahead a spent burst is."""
    # A senseless limit has no room for any request, so it refuses instead of dividing by zero.
    if min(rate.count, rate.seconds, rate.burst) < 1:
        return NANOSECONDS_PER_SECOND, 0
    interval = -(-rate.seconds * NANOSECONDS_PER_SECOND // rate.count)
    return interval, rate.burst * interval
