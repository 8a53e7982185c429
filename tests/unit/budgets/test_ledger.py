"""The ledger: reservations, windows, and what is left after a restart."""

from __future__ import annotations

import pytest

from egress.budgets.ledger import (
    NEVER_REOPENS,
    NO_AMOUNTS,
    RESERVED_WAIT,
    Amounts,
    JournalEntry,
    Ledger,
    Shortage,
)
from egress.rules.decide.budget_spec import DAY, HOUR, BudgetSpec
from tests.unit.budgets.specs import limit, spec, tokens

NOW = 1_000_000 * 60


def take(ledger: Ledger, budget: BudgetSpec, amount: int, now: int = NOW, scope: str = "s") -> int | Shortage:
    return ledger.reserve([(budget, scope)], Amounts(tokens=amount), now)


def spend(ledger: Ledger, budget: BudgetSpec, amount: int, now: int = NOW, scope: str = "s") -> None:
    number = take(ledger, budget, amount, now, scope)
    assert isinstance(number, int)
    ledger.settle(number, Amounts(tokens=amount), now)


def test_vector_9_of_ten_calls_at_once_three_pass_where_there_is_room_for_three() -> None:
    ledger, budget = Ledger(), tokens(350)
    taken = [take(ledger, budget, 100) for _ in range(10)]
    assert [isinstance(each, int) for each in taken] == [True] * 3 + [False] * 7
    assert taken[3] == Shortage("agents", RESERVED_WAIT)


def test_settling_gives_back_what_was_not_used() -> None:
    ledger, budget = Ledger(), tokens(100)
    number = take(ledger, budget, 90)
    assert isinstance(number, int)
    assert take(ledger, budget, 20) == Shortage("agents", RESERVED_WAIT)
    ledger.settle(number, Amounts(tokens=30), NOW)
    assert ledger.room([(budget, "s")], "tokens", NOW) == 70
    ledger.settle(number, Amounts(tokens=30), NOW)
    assert ledger.room([(budget, "s")], "tokens", NOW) == 70


def test_a_call_may_cost_more_than_it_reserved_and_closes_the_budget() -> None:
    ledger, budget = Ledger(), tokens(100)
    number = take(ledger, budget, 10)
    assert isinstance(number, int)
    ledger.settle(number, Amounts(tokens=170), NOW)
    assert ledger.room([(budget, "s")], "tokens", NOW) == 0
    assert isinstance(take(ledger, budget, 1), Shortage)
    assert isinstance(take(ledger, budget, 0), Shortage)


@pytest.mark.parametrize(("window", "seconds"), [("hour", HOUR), ("day", DAY)])
def test_a_window_opens_again_when_its_last_second_has_left_it(window: str, seconds: int) -> None:
    ledger, budget = Ledger(), tokens(100, window)
    spend(ledger, budget, 60)
    spend(ledger, budget, 40, NOW + seconds // 2)
    refused = take(ledger, budget, 50, NOW + seconds // 2)
    assert isinstance(refused, Shortage)
    opens = NOW + seconds // 2 + refused.wait
    assert NOW + seconds <= opens <= NOW + seconds + seconds // 60
    assert isinstance(take(ledger, budget, 50, opens - 1), Shortage)
    assert isinstance(take(ledger, budget, 50, opens), int)


def test_a_window_without_an_end_never_opens_again() -> None:
    ledger, budget = Ledger(), tokens(100, "total")
    spend(ledger, budget, 100)
    assert take(ledger, budget, 1, NOW + 1000 * DAY) == Shortage("agents", NEVER_REOPENS)
    ledger.forget("s")
    assert isinstance(take(ledger, budget, 1), int)


def test_a_sandbox_that_comes_again_keeps_its_hour() -> None:
    ledger, budget = Ledger(), spec(limit("tokens", 100, "hour"), limit("tokens", 1000, "total"))
    spend(ledger, budget, 100)
    ledger.forget("s")
    assert isinstance(take(ledger, budget, 1), Shortage)


def test_several_limits_and_budgets_all_count_and_a_refusal_takes_nothing() -> None:
    ledger, small, large = Ledger(), tokens(50, name="small"), tokens(100, name="large")
    claims = [(small, "s"), (large, "s")]
    assert ledger.reserve(claims, Amounts(tokens=60), NOW) == Shortage("small", NEVER_REOPENS)
    assert ledger.room([(large, "s")], "tokens", NOW) == 100
    assert isinstance(ledger.reserve(claims, Amounts(tokens=40), NOW), int)
    assert ledger.room(claims, "tokens", NOW) == 10
    assert ledger.room(claims, "usd", NOW) is None


def test_scopes_do_not_share() -> None:
    ledger, budget = Ledger(), tokens(100)
    spend(ledger, budget, 100, scope="a")
    assert isinstance(take(ledger, budget, 100, scope="b"), int)


def test_money_and_tokens_are_counted_apart() -> None:
    ledger, budget = Ledger(), spec(limit("usd", 1000), limit("tokens", 10))
    assert isinstance(ledger.reserve([(budget, "s")], Amounts(1000, 10), NOW), int)
    assert ledger.room([(budget, "s")], "usd", NOW) == 0


def test_a_clock_that_was_put_back_makes_nothing_free() -> None:
    ledger, budget = Ledger(), tokens(100)
    spend(ledger, budget, 50, NOW)
    spend(ledger, budget, 50, NOW - 2 * HOUR)
    assert ledger.room([(budget, "s")], "tokens", NOW) == 0


# The journal ----------------------------------------------------------------------------------


def replayed(entries: list[JournalEntry], now: int = NOW) -> Ledger:
    ledger = Ledger()
    for entry in entries:
        ledger.apply(entry)
    ledger.charge_unsettled(now)
    return ledger


def test_vector_20_a_restart_keeps_what_was_spent_and_charges_calls_on_their_way() -> None:
    entries: list[JournalEntry] = []
    ledger, budget = Ledger(entries.append), tokens(100)
    spend(ledger, budget, 30)
    assert isinstance(take(ledger, budget, 25), int)
    again = replayed(entries)
    assert again.room([(budget, "s")], "tokens", NOW) == 45
    short = replayed([*ledger.snapshot(NOW)])
    assert short.room([(budget, "s")], "tokens", NOW) == 45
    assert isinstance(take(short, budget, 45), int)


def test_a_change_that_cannot_be_written_down_does_not_hold() -> None:
    def full(_: JournalEntry) -> None:
        raise OSError("full")

    ledger, budget = Ledger(full), tokens(100)
    with pytest.raises(OSError, match="full"):
        take(ledger, budget, 30)
    assert ledger.room([(budget, "s")], "tokens", NOW) == 100


@pytest.mark.parametrize(("window", "opens"), [("hour", HOUR), ("day", DAY), ("total", None)])
def test_a_lost_journal_counts_as_full_until_its_window_is_over(window: str, opens: int | None) -> None:
    ledger, budget = replayed([JournalEntry("lost", at=NOW)]), tokens(100, window)
    refused = take(ledger, budget, 1)
    assert refused == Shortage("agents", NEVER_REOPENS if opens is None else opens)
    kept = replayed([*ledger.snapshot(NOW)])
    assert kept.lost_at == NOW
    assert isinstance(take(kept, budget, 1, NOW + (opens or HOUR * 999)), int if opens else Shortage)


def test_the_state_of_an_account_is_told() -> None:
    ledger, budget = Ledger(), spec(limit("tokens", 100), limit("tokens", 500, "day"))
    spend(ledger, budget, 90)
    assert isinstance(take(ledger, budget, 10), int)
    hour, day = ledger.states([budget, tokens(5, name="other")], NOW)
    assert (hour.scope, hour.spent, hour.reserved, day.spent) == ("s", 90, 10, 90)
    assert hour.reopens
    assert not day.reopens


def test_an_empty_account_is_not_kept() -> None:
    ledger, budget = Ledger(), tokens(100)
    spend(ledger, budget, 5)
    assert list(ledger.snapshot(NOW + 2 * DAY)) != []  # the total stays
    assert list(Ledger().snapshot(NOW)) == []
    assert Amounts() == NO_AMOUNTS
