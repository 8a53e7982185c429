"""Budgets, prices and calls for tests."""

from __future__ import annotations

from egress.budgets.call_plan import CallPlan
from egress.inspect.llm.llm_call import LlmCall
from egress.rules.decide.budget_spec import DAY, HOUR, TOTAL, BudgetLimit, BudgetScope, BudgetSpec, BudgetUnit
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.price_table import MICRO_CENTS_PER_USD, PartPrices, Price, PriceTable
from egress.types import Place

PLACE = Place("rules.yaml", 1, 1)
WINDOWS = {"hour": HOUR, "day": DAY, "total": TOTAL}
USD = MICRO_CENTS_PER_USD


def limit(unit: BudgetUnit, amount: int, window: str = "hour") -> BudgetLimit:
    return BudgetLimit(unit, amount, WINDOWS[window])


def spec(
    *limits: BudgetLimit, name: str = "agents", per: BudgetScope = "sandbox", prices_dearest: bool = False
) -> BudgetSpec:
    return BudgetSpec(name, PLACE, limits, per=per, prices_dearest=prices_dearest, warnings=(80, 95))


def tokens(amount: int, window: str = "hour", name: str = "agents") -> BudgetSpec:
    return spec(limit("tokens", amount, window), name=name)


HAIKU = Price(
    ValueGlob("claude-haiku-*"),
    PartPrices({"input": USD, "cache_read": USD // 10, "cache_write_5m": USD * 5 // 4, "output": 5 * USD}),
)
OPUS = Price(ValueGlob("claude-opus-*"), PartPrices({"input": 15 * USD, "output": 75 * USD}))
TABLE = PriceTable((HAIKU, OPUS), "2026-11-20", "digest")


def call(model: str = "claude-haiku-4", sent: int = 100, output: int | None = 1000) -> LlmCall:
    return LlmCall("anthropic", (model,), max_output=output, input_tokens=sent)


def plan(model: str = "claude-haiku-4", sent: int = 100, output: int = 1000) -> CallPlan:
    return CallPlan(call(model, sent, output), output)
