"""`budgets:` and `prices:`: amounts that are whole, and mistakes that are told."""

from __future__ import annotations

import pytest

from egress.rules.compile.load import RuleText, load
from egress.rules.decide.budget_spec import DAY, HOUR, TOTAL, BudgetLimit
from egress.rules.decide.policy import Policy
from egress.rules.decide.price_table import MICRO_CENTS_PER_USD as USD


def loaded(*texts: str) -> tuple[Policy | None, list[str]]:
    made = load([RuleText(f"{number}.yaml", f"version: 1\n{text}") for number, text in enumerate(texts)])
    return made.policy, [finding.message for finding in made.findings]


def policy(*texts: str) -> Policy:
    made, findings = loaded(*texts)
    assert made is not None, findings
    return made


def test_amounts_are_whole_micro_cents_and_tokens() -> None:
    made = policy(
        "budgets: { a: { usd: [0.01/hour, 20/day, 200/total], tokens: 1.5M/hour, warn: [95, 80], per: all } }"
    )
    budget = made.budgets["a"]
    assert budget.limits == (
        BudgetLimit("usd", USD // 100, HOUR),
        BudgetLimit("usd", 20 * USD, DAY),
        BudgetLimit("usd", 200 * USD, TOTAL),
        BudgetLimit("tokens", 1_500_000, HOUR),
    )
    assert (budget.warnings, budget.per, budget.prices_dearest) == ((80, 95), "all", False)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ("{}", "a budget needs a limit"),
        ("{ usd: 5 }", "this must be text or a list"),
        ("{ usd: 5/week }", "this is not a limit"),
        ("{ usd: 5M/hour }", "this is not a limit"),
        ("{ usd: -5/hour }", "this is not a limit"),
        ("{ tokens: 0/hour }", "this is not a sensible amount"),
        ("{ tokens: 0.5/hour }", "this is not a sensible amount"),
        ("{ usd: [5/hour, 6/hour] }", "two limits are about the same window"),
        ("{ usd: 5/hour, warn: [0] }", "this must be at least 1"),
        ("{ usd: 5/hour, unpriced: free }", "`free` is not one of"),
    ],
)
def test_a_mistake_in_a_budget_is_told(budget: str, said: str) -> None:
    made, findings = loaded(f"budgets: {{ agents: {budget} }}")
    assert made is None
    assert said in findings[0]


def test_a_budget_stands_once_and_has_a_plain_name() -> None:
    assert (
        "duplicate budget `a`"
        in loaded("budgets: { a: { usd: 5/day } }", "budgets: { a: { usd: 6/day } }")[1][0]
    )
    assert "is not the name of a budget" in loaded("budgets: { A_b: { usd: 5/day } }")[1][0]


PRICES = """
prices:
  date: "2026-11-20"
  models:
    - match: "claude-*"
      per_million: { input: 0.25, cache_read: "0.03", output: 1.25 }
      above: [{ input_over: 200000, input: 2, output: 3 }, { input_over: 500000, input: 9, output: 9 }]
      tiers: { batch: 0.5, priority: 2 }
      per_call: { web_search: 0.01 }
      valid_from: "2026-01-01"
"""


def test_prices_are_whole_micro_cents() -> None:
    table = policy(PRICES).prices
    (price,) = table.prices
    assert price.base.parts == {"input": USD // 4, "cache_read": 3 * USD // 100, "output": 5 * USD // 4}
    assert [bound for bound, _ in price.above] == [500_000, 200_000]
    assert (price.tiers, price.per_call) == ({"batch": 500, "priority": 2000}, {"web_search": USD // 100})
    assert (table.date, price.valid_from, len(table.digest)) == ("2026-11-20", "2026-01-01", 16)


def test_the_digest_is_that_of_the_prices_alone() -> None:
    other = PRICES.replace("0.25", "0.26")
    assert policy(PRICES).prices.digest == policy(PRICES + "# a comment\n").prices.digest
    assert policy(PRICES).prices.digest != policy(other).prices.digest


@pytest.mark.parametrize(
    ("price", "said"),
    [
        ("per_million: {}", "a price needs a part"),
        ("per_million: { input: -1 }", "this is not a sensible amount"),
        ("per_million: { input: 0.000000001 }", "this is not a sensible amount"),
        ("per_million: { input: many }", "this is not an amount"),
        ("per_million: { input: 1e400 }", "this is not a"),
        ('per_million: { input: "NaN" }', "this is not a sensible amount"),
        ("per_million: { input: 1 }, valid_from: soon", "this is not a day"),
        ("per_million: { input: 1 }, currency: eur", "unknown key `currency`"),
        ("per_million: { input: 1 }, tiers: { a: 0.00001 }", "this is not a sensible amount"),
    ],
)
def test_a_mistake_in_a_price_is_told(price: str, said: str) -> None:
    made, findings = loaded(f"prices: {{ date: '2026-11-20', models: [{{ match: m, {price} }}] }}")
    assert made is None
    assert said in findings[0]


def test_a_model_has_one_price_and_the_file_one_table() -> None:
    item = "{ match: m, per_million: { input: 1 } }"
    assert "`m` has two prices" in loaded(f"prices: {{ date: '2026-11-20', models: [{item}, {item}] }}")[1][0]
    one = f"prices: {{ date: '2026-11-20', models: [{item}] }}"
    assert "`prices` is set twice" in loaded(one, one)[1][0]
    assert "this is not a day" in loaded("prices: { date: today, models: [] }")[1][0]
