"""Rates against their definition, in every order of limits and with every clock."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from egress.rules.decide.limits import (
    NANOSECONDS_PER_SECOND,
    Key,
    acquire_connection,
    idle_keys,
    release_connection,
    take_request,
)
from egress.types import Limit, Place, Rate

SANDBOXES = st.sampled_from(["a", "b"])
rates = st.builds(
    Rate, count=st.integers(1, 1000), seconds=st.sampled_from([1, 60, 3600]), burst=st.integers(1, 6)
)
pauses = st.lists(
    st.one_of(
        st.just(0),
        st.integers(0, 1000),
        st.integers(0, NANOSECONDS_PER_SECOND),
        st.integers(0, 4000 * NANOSECONDS_PER_SECOND),
    ),
    max_size=40,
)


def limits_of(rates: list[Rate]) -> list[Limit]:
    return [Limit(Place("hosts.yaml", line, 1), requests=rate) for line, rate in enumerate(rates, 1)]


def interval_of(rate: Rate) -> int:
    return -(-rate.seconds * NANOSECONDS_PER_SECOND // rate.count)


def passes_by_definition(rate: Rate, passed: list[int], now: int) -> bool:
    """Whether, from each earlier request up to this one, no more came than burst and pace allow."""
    return all(
        len(passed) - first + 1 <= rate.burst + (now - at) // interval_of(rate)
        for first, at in enumerate(passed)
    )


@given(st.lists(rates, max_size=3), pauses)
def test_passes_exactly_what_the_definition_passes(rates: list[Rate], pauses: list[int]) -> None:
    """One list of passed requests serves all rates: a refusal by one consumes from none."""
    limits = limits_of(rates)
    arrivals: dict[Key, int] = {}
    passed: list[int] = []
    now = 0
    for pause in pauses:
        now += pause
        taken = take_request(arrivals, "a", limits, now)
        arrivals.update(taken.changes)
        assert taken.allowed == all(passes_by_definition(rate, passed, now) for rate in rates)
        if taken.allowed:
            passed.append(now)


@given(rates, pauses)
def test_no_window_holds_more_than_burst_and_pace(rate: Rate, pauses: list[int]) -> None:
    arrivals: dict[Key, int] = {}
    passed: list[int] = []
    now = 0
    for pause in pauses:
        now += pause
        taken = take_request(arrivals, "a", limits_of([rate]), now)
        arrivals.update(taken.changes)
        if taken.allowed:
            passed.append(now)
    for first, begin in enumerate(passed):
        for last, end in enumerate(passed[first:], first):
            pace = Fraction(rate.count * (end - begin), rate.seconds * NANOSECONDS_PER_SECOND)
            assert last - first + 1 <= rate.burst + pace


@given(st.lists(rates, min_size=1, max_size=3), pauses)
def test_a_refusal_takes_nothing_and_its_wait_is_exact(rates: list[Rate], pauses: list[int]) -> None:
    limits = limits_of(rates)
    arrivals: dict[Key, int] = {}
    now = 0
    for pause in pauses:
        now += pause
        taken = take_request(arrivals, "a", limits, now)
        if not taken.allowed:
            assert taken.changes == {}, "the clock never went back"
            assert taken.refused_by in {limit.place for limit in limits}
            assert not take_request(arrivals, "a", limits, now + taken.wait - 1).allowed
            assert take_request(arrivals, "a", limits, now + taken.wait).allowed
        arrivals.update(taken.changes)


def room(arrivals: dict[Key, int], limit: Limit, now: int) -> int:
    """Count the requests that would pass at once."""
    arrivals = dict(arrivals)
    for passed in range(100):
        taken = take_request(arrivals, "a", [limit], now)
        arrivals.update(taken.changes)
        if not taken.allowed:
            return passed
    raise AssertionError("a burst without end")


@given(rates, pauses, st.integers(0, 10_000 * NANOSECONDS_PER_SECOND))
def test_a_jump_back_gives_nothing_and_costs_at_most_one_interval(
    rate: Rate, pauses: list[int], back: int
) -> None:
    (limit,) = limits_of([rate])
    arrivals: dict[Key, int] = {}
    now = 0
    for pause in pauses:
        now += pause
        arrivals.update(take_request(arrivals, "a", [limit], now).changes)
    before = room(arrivals, limit, now)
    now -= back
    assert room(arrivals, limit, now) <= before
    taken = take_request(arrivals, "a", [limit], now)
    assert taken.wait <= interval_of(rate)
    arrivals.update(taken.changes)
    assert room(arrivals, limit, now + interval_of(rate)) >= 1


@given(
    st.lists(
        st.tuples(st.integers(-5 * NANOSECONDS_PER_SECOND, 5 * NANOSECONDS_PER_SECOND), SANDBOXES),
        max_size=30,
    ),
    rates,
)
def test_any_clock_keeps_the_kept_times_within_a_burst(steps: list[tuple[int, str]], rate: Rate) -> None:
    (limit,) = limits_of([rate])
    arrivals: dict[Key, int] = {}
    now = 0
    for step, sandbox in steps:
        now += step
        taken = take_request(arrivals, sandbox, [limit], now)
        arrivals.update(taken.changes)
        key = (sandbox, limit.place)
        assert arrivals.get(key, now) <= now + rate.burst * interval_of(rate)


@given(st.lists(rates, min_size=1, max_size=2), pauses, pauses)
def test_forgetting_idle_keys_changes_no_answer(
    rates: list[Rate], before: list[int], after: list[int]
) -> None:
    limits = limits_of(rates)
    arrivals: dict[Key, int] = {}
    now = 0
    for pause in before:
        now += pause
        arrivals.update(take_request(arrivals, "a", limits, now).changes)
    kept = {key: admitted for key, admitted in arrivals.items() if key not in idle_keys(arrivals, now)}
    for pause in after:
        now += pause
        one, other = take_request(arrivals, "a", limits, now), take_request(kept, "a", limits, now)
        assert one == other
        arrivals.update(one.changes)
        kept.update(other.changes)


rooms = st.lists(st.integers(0, 3), min_size=1, max_size=3)
moves = st.lists(st.tuples(SANDBOXES, st.booleans()), max_size=40)


@given(rooms, moves)
def test_connections_are_counted_like_a_list_of_open_ones(
    rooms: list[int], moves: list[tuple[str, bool]]
) -> None:
    limits = [Limit(Place("hosts.yaml", line, 1), connections=most) for line, most in enumerate(rooms, 1)]
    counts: dict[Key, int] = {}
    opened: list[str] = []
    for sandbox, opens in moves:
        if opens:
            taken = acquire_connection(counts, sandbox, limits)
            assert taken.allowed == (opened.count(sandbox) < min(rooms))
            assert taken.allowed or taken.changes == {}
            counts.update(taken.changes)
            opened += [sandbox] * taken.allowed
        elif sandbox in opened:
            opened.remove(sandbox)
            counts.update(release_connection(counts, sandbox, limits))
    for (sandbox, _), count in counts.items():
        assert count == opened.count(sandbox)
