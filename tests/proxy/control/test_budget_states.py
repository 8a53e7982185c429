"""The states of budgets, asked over the control socket."""

from __future__ import annotations

from dataclasses import replace

from egress.budgets.budget_desk import BudgetJournalError
from egress.budgets.ledger import Amounts, JournalEntry
from egress.proxy.control.server import ControlReply
from tests.proxy.control.test_service import Running, running
from tests.unit.budgets.specs import TABLE, limit, spec

__all__ = ["running"]

BUDGET = spec(limit("tokens", 100), limit("usd", 5, "total"))


def with_budget(running: Running) -> None:
    engine = running.stack.engine
    engine.policy = replace(engine.policy, budgets={"agents": BUDGET}, prices=TABLE)


async def test_each_limit_of_an_account_is_told(running: Running) -> None:
    with_budget(running)
    engine = running.stack.engine
    now = engine.clock.now()
    number = engine.ledger.reserve([(BUDGET, "box")], Amounts(tokens=60), now)
    assert isinstance(number, int)
    engine.ledger.settle(number, Amounts(tokens=40), now)
    engine.ledger.reserve([(BUDGET, "box")], Amounts(tokens=50), now)
    answer: ControlReply = await running.ask("GET", "/budgets")
    assert answer.body == {
        "budgets": [
            {
                "budget": "agents",
                "scope": "box",
                "unit": "tokens",
                "window": 3600,
                "limit": 100,
                "spent": 40,
                "reserved": 50,
                "reopens": 0,
            },
            {
                "budget": "agents",
                "scope": "box",
                "unit": "usd",
                "window": 0,
                "limit": 5,
                "spent": 0,
                "reserved": 0,
                "reopens": 0,
            },
        ],
        "lost": None,
        "prices": {"date": "2026-11-20", "digest": "digest", "models": 2},
    }
    assert engine.budgets.used(engine.policy) == {"agents": 0.9}


async def test_a_lost_journal_is_told_and_can_be_accepted(running: Running) -> None:
    with_budget(running)
    ledger = running.stack.engine.ledger
    ledger.apply(JournalEntry("lost", at=running.stack.engine.clock.now()))
    assert isinstance((await running.ask("GET", "/budgets")).body, dict)
    assert ledger.room([(BUDGET, "box")], "tokens", running.stack.engine.clock.now()) == 0
    accepted = await running.ask("POST", "/budgets/accept-loss")
    assert (accepted.status, accepted.body) == (200, {"accepted": True})
    assert (await running.ask("POST", "/budgets/accept-loss")).body == {"accepted": False}
    assert ledger.room([(BUDGET, "box")], "tokens", running.stack.engine.clock.now()) == 100


async def test_a_journal_that_cannot_be_written_is_told(running: Running) -> None:
    ledger = running.stack.engine.ledger
    ledger.apply(JournalEntry("lost", at=1))

    def full(_: JournalEntry) -> None:
        raise BudgetJournalError("budgets.journal cannot be written", "check the disk")

    ledger.journal = full
    answer = await running.ask("POST", "/budgets/accept-loss")
    assert (answer.status, ledger.lost_at) == (503, 1)
