"""The shapes of budgets and prices: keys and types."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from egress.rules.language.budget_models import BudgetItem, PricesItem


def test_an_amount_of_money_is_a_number_or_a_text() -> None:
    for amount in (1, 0.25, "0.25"):
        item = {"match": "m", "per_million": {"input": amount}}
        assert (
            PricesItem.model_validate({"date": "2026-11-20", "models": [item]}).models[0].per_million.input
            == amount
        )


@pytest.mark.parametrize("amount", [True, None, [1], {"usd": 1}])
def test_anything_else_is_none(amount: object) -> None:
    item = {"match": "m", "per_million": {"input": amount}, "above": [{"input_over": amount}]}
    with pytest.raises(ValidationError):
        PricesItem.model_validate({"date": "2026-11-20", "models": [item]})


@pytest.mark.parametrize(
    "item", [{"usd": 5}, {"usd": "5/day", "per": "host"}, {"usd": "5/day", "warn": [101]}, {"eur": 1}]
)
def test_a_budget_takes_no_other_keys_or_words(item: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BudgetItem.model_validate(item)
