"""Rates and connection counts, one step at a time."""

from __future__ import annotations

import pytest

from egress.rules.decide.limits import (
    NANOSECONDS_PER_SECOND,
    Key,
    acquire_connection,
    idle_keys,
    release_connection,
    smallest_limit,
    take_request,
)
from egress.types import Limit, Place, Rate

HERE = Place("hosts.yaml", 7, 5)
THERE = Place("hosts.yaml", 20, 5)
TWO_A_SECOND = Limit(HERE, requests=Rate(count=2, seconds=1, burst=3))
ONE_A_MINUTE = Limit(THERE, requests=Rate(count=1, seconds=60, burst=1))


class Ledger:
    """A caller that writes back what it was told to."""

    def __init__(self) -> None:
        self.arrivals: dict[Key, int] = {}

    def ask(self, *limits: Limit, at: float, sandbox: str = "a") -> bool:
        taken = take_request(self.arrivals, sandbox, limits, int(at * NANOSECONDS_PER_SECOND))
        self.arrivals.update(taken.changes)
        return taken.allowed


def test_lets_a_burst_through_and_then_the_steady_pace() -> None:
    ledger = Ledger()
    assert [ledger.ask(TWO_A_SECOND, at=0) for _ in range(5)] == [True, True, True, False, False]
    assert not ledger.ask(TWO_A_SECOND, at=0.49)
    assert ledger.ask(TWO_A_SECOND, at=0.5)
    assert not ledger.ask(TWO_A_SECOND, at=0.5)


def test_an_interval_that_is_no_whole_number_is_rounded_up() -> None:
    three_a_second = Limit(HERE, requests=Rate(count=3, seconds=1, burst=1))
    arrivals = dict(take_request({}, "a", [three_a_second], 0).changes)
    assert not take_request(arrivals, "a", [three_a_second], 333_333_333).allowed
    assert take_request(arrivals, "a", [three_a_second], 333_333_334).allowed


def test_a_full_burst_is_back_after_a_pause() -> None:
    ledger = Ledger()
    for _ in range(3):
        assert ledger.ask(TWO_A_SECOND, at=0)
    assert [ledger.ask(TWO_A_SECOND, at=100) for _ in range(4)] == [True, True, True, False]


def test_no_limits_let_everything_through() -> None:
    taken = take_request({}, "a", (), 0)
    assert taken.allowed
    assert taken.changes == {}


def test_a_limit_without_a_rate_does_not_count_requests() -> None:
    assert take_request({}, "a", [Limit(HERE, connections=1)], 0).changes == {}


def test_sandboxes_do_not_share_a_limit() -> None:
    ledger = Ledger()
    assert ledger.ask(ONE_A_MINUTE, at=0, sandbox="a")
    assert not ledger.ask(ONE_A_MINUTE, at=0, sandbox="a")
    assert ledger.ask(ONE_A_MINUTE, at=0, sandbox="b")


def test_places_do_not_share_a_limit() -> None:
    ledger = Ledger()
    elsewhere = Limit(HERE, requests=ONE_A_MINUTE.requests)
    assert ledger.ask(ONE_A_MINUTE, at=0)
    assert ledger.ask(elsewhere, at=0)


def test_a_refusal_consumes_nothing_from_the_other_limits() -> None:
    ledger = Ledger()
    assert ledger.ask(TWO_A_SECOND, ONE_A_MINUTE, at=0)
    before = dict(ledger.arrivals)
    for _ in range(10):
        assert not ledger.ask(TWO_A_SECOND, ONE_A_MINUTE, at=0)
    assert ledger.arrivals == before
    assert ledger.ask(TWO_A_SECOND, at=0)


def test_the_order_of_limits_changes_nothing() -> None:
    one, other = Ledger(), Ledger()
    for at in (0, 0, 1, 61, 61):
        assert one.ask(TWO_A_SECOND, ONE_A_MINUTE, at=at) == other.ask(ONE_A_MINUTE, TWO_A_SECOND, at=at)
    assert one.arrivals == other.arrivals


def test_a_limit_named_twice_counts_once() -> None:
    ledger = Ledger()
    allowed = [ledger.ask(TWO_A_SECOND, TWO_A_SECOND, at=0) for _ in range(4)]
    assert allowed == [True, True, True, False]


def test_does_not_change_its_input() -> None:
    arrivals: dict[Key, int] = {}
    assert take_request(arrivals, "a", [TWO_A_SECOND], 0).changes
    assert arrivals == {}


def test_a_refusal_names_the_place_with_the_longest_wait_and_when_to_try_again() -> None:
    ledger = Ledger()
    assert ledger.ask(ONE_A_MINUTE, at=0)
    for _ in range(3):
        assert ledger.ask(TWO_A_SECOND, at=0)
    taken = take_request(ledger.arrivals, "a", [TWO_A_SECOND, ONE_A_MINUTE], NANOSECONDS_PER_SECOND // 4)
    assert taken.refused_by == THERE
    assert taken.wait == 60 * NANOSECONDS_PER_SECOND - NANOSECONDS_PER_SECOND // 4
    assert taken.retry_after == 60


@pytest.mark.parametrize(
    ("wait", "seconds"), [(1, 1), (NANOSECONDS_PER_SECOND, 1), (NANOSECONDS_PER_SECOND + 1, 2)]
)
def test_retry_after_is_rounded_up(wait: int, seconds: int) -> None:
    arrivals = {("a", THERE): wait}
    assert take_request(arrivals, "a", [ONE_A_MINUTE], 0).retry_after == seconds


def test_a_clock_that_jumps_back_costs_at_most_one_interval() -> None:
    ledger = Ledger()
    for _ in range(3):
        assert ledger.ask(TWO_A_SECOND, at=1_000_000)
    asked = [ledger.ask(TWO_A_SECOND, at=10 + tenth / 10) for tenth in range(6)]
    assert asked == [False, False, False, False, False, True]


def test_a_clock_that_jumps_back_gives_nothing_away() -> None:
    ledger = Ledger()
    for _ in range(3):
        assert ledger.ask(TWO_A_SECOND, at=10)
    for at in (9, 8.9, 5, 1, 0):
        assert not ledger.ask(TWO_A_SECOND, at=at)


def test_a_lower_rate_in_the_same_place_locks_nobody_out() -> None:
    """The place of a limit stays when a reload changes its number."""
    ledger = Ledger()
    assert ledger.ask(Limit(HERE, requests=Rate(count=1, seconds=3600, burst=1)), at=0)
    assert not ledger.ask(TWO_A_SECOND, at=1)
    assert ledger.ask(TWO_A_SECOND, at=1.5)


@pytest.mark.parametrize("rate", [Rate(0, 1, 1), Rate(1, 0, 1), Rate(1, 1, 0), Rate(-1, -1, -1)])
def test_a_rate_that_makes_no_sense_refuses_everything(rate: Rate) -> None:
    taken = take_request({}, "a", [Limit(HERE, requests=rate)], 0)
    assert not taken.allowed
    assert taken.refused_by == HERE
    assert taken.retry_after >= 1


def test_only_keys_with_a_full_burst_are_idle() -> None:
    arrivals = {("a", HERE): 5, ("b", HERE): 10, ("c", HERE): 11}
    assert idle_keys(arrivals, 10) == [("a", HERE), ("b", HERE)]


TWO_OPEN = Limit(HERE, connections=2)
ONE_OPEN = Limit(THERE, connections=1)


def test_opens_connections_up_to_the_limit() -> None:
    counts: dict[Key, int] = {}
    for expected in (True, True, False):
        taken = acquire_connection(counts, "a", [TWO_OPEN])
        assert taken.allowed is expected
        counts.update(taken.changes)
    assert acquire_connection(counts, "a", [TWO_OPEN]).refused_by == HERE
    assert acquire_connection(counts, "b", [TWO_OPEN]).allowed


def test_a_closed_connection_makes_room() -> None:
    counts: dict[Key, int] = {("a", THERE): 1}
    assert not acquire_connection(counts, "a", [ONE_OPEN]).allowed
    counts.update(release_connection(counts, "a", [ONE_OPEN]))
    assert counts == {("a", THERE): 0}
    assert acquire_connection(counts, "a", [ONE_OPEN]).allowed


def test_each_connection_that_closes_makes_room_for_one() -> None:
    key = ("a", HERE)
    assert release_connection({key: 2}, "a", [TWO_OPEN]) == {key: 1}
    assert release_connection({key: 1}, "a", [TWO_OPEN]) == {key: 0}


def test_the_tightest_of_several_bounds_holds() -> None:
    assert smallest_limit([]) is None
    assert smallest_limit([None, None]) is None
    assert smallest_limit([None, 3, 1, None, 2]) == 1
    assert smallest_limit([0, None]) == 0


def test_a_refused_connection_takes_no_room_anywhere() -> None:
    counts: dict[Key, int] = {("a", THERE): 1}
    taken = acquire_connection(counts, "a", [TWO_OPEN, ONE_OPEN])
    assert not taken.allowed
    assert taken.changes == {}
    assert taken.retry_after == 0


def test_a_release_too_many_makes_no_room_that_is_not_there() -> None:
    counts: dict[Key, int] = {}
    for _ in range(3):
        counts.update(release_connection(counts, "a", [ONE_OPEN]))
    assert counts == {("a", THERE): 0}


def test_a_connection_limit_named_twice_counts_once() -> None:
    taken = acquire_connection({}, "a", [ONE_OPEN, ONE_OPEN])
    assert taken.changes == {("a", THERE): 1}
    assert release_connection(taken.changes, "a", [ONE_OPEN, ONE_OPEN]) == {("a", THERE): 0}


def test_a_limit_of_no_connections_refuses_the_first() -> None:
    assert not acquire_connection({}, "a", [Limit(HERE, connections=0)]).allowed


def test_a_limit_without_connections_counts_none() -> None:
    assert acquire_connection({}, "a", [TWO_A_SECOND]).changes == {}
    assert release_connection({}, "a", [TWO_A_SECOND]) == {}
