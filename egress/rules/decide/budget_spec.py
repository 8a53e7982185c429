"""Budgets as the rules write them: what may be spent, within which windows, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from egress.types import Place, value_class

HOUR: Final = 3600
DAY: Final = 86_400
TOTAL: Final = 0
"""The window without an end: the life of a sandbox."""

BudgetUnit = Literal["usd", "tokens"]
BudgetScope = Literal["sandbox", "profile", "secret", "all"]


@value_class
class BudgetLimit:
    """The most that may be spent within a window."""

    unit: BudgetUnit
    amount: int
    """Micro-cents or tokens."""
    window: int
    """Seconds: `HOUR` or `DAY`, or `TOTAL`."""


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    """A budget."""

    name: str
    place: Place
    limits: tuple[BudgetLimit, ...]
    per: BudgetScope = "sandbox"
    prices_dearest: bool = False
    """A model without a price costs as much as the dearest one; otherwise its calls are denied."""
    warnings: tuple[int, ...] = ()
    """The shares in percent whose passing is recorded."""

    @property
    def counts_money(self) -> bool:
        return any(limit.unit == "usd" for limit in self.limits)
