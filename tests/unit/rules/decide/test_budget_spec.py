"""Budgets: whether they count money."""

from __future__ import annotations

from tests.unit.budgets.specs import limit, spec


def test_a_budget_counts_money_where_a_limit_does() -> None:
    assert spec(limit("tokens", 1), limit("usd", 1)).counts_money
    assert not spec(limit("tokens", 1)).counts_money
