"""Budgets and prices are written as they were read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.rules.compile.budget_writer import amount_text
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import as_data, as_text
from egress.rules.decide.policy import Policy
from egress.types import Place
from tests.unit.rules.compile.test_budget_rules import PRICES

TEXT = (
    "version: 1\nbudgets:\n"
    "  a: { usd: [0.01/hour, 20/total], tokens: 1.5M/day, per: all, unpriced: dearest, warn: [80] }\n"
    "  b: { tokens: 5/hour }\n" + PRICES
)


def policy(text: str) -> Policy:
    made = load([RuleText("f.yaml", text)])
    assert made.policy is not None, made.findings
    return made.policy


def test_a_written_policy_is_read_back() -> None:
    first = policy(TEXT)
    again = policy(as_text(first))
    place = Place("", 0, 0)
    assert [replace(each, place=place) for each in again.budgets.values()] == [
        replace(each, place=place) for each in first.budgets.values()
    ]
    assert again.prices == first.prices
    assert as_data(first)["prices"] == as_data(again)["prices"]
    assert "budgets" not in as_text(policy("version: 1\n"))


@pytest.mark.parametrize(
    ("amount", "scale", "text"),
    [(1, 10**8, "0.00000001"), (200, 1, "200"), (25 * 10**6, 10**8, "0.25"), (0, 1, "0")],
)
def test_an_amount_has_no_zeros_at_its_end(amount: int, scale: int, text: str) -> None:
    assert amount_text(amount, scale) == text
