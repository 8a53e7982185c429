"""Write budgets and prices as they stand in a rule file."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from egress.rules.decide.budget_spec import DAY, HOUR, TOTAL, BudgetSpec
from egress.rules.decide.price_table import MICRO_CENTS_PER_USD, TIER_UNIT, Price, PriceTable

FieldsJson = str | int | float | bool | list["FieldsJson"] | dict[str, "FieldsJson"]
"""A value of a written policy."""
_WINDOW_NAMES: Final = {HOUR: "hour", DAY: "day", TOTAL: "total"}


def budget_fields(spec: BudgetSpec) -> dict[str, FieldsJson]:
    """Return the fields of a budget."""
    fields: dict[str, FieldsJson] = {}
    for unit, scale in (("usd", MICRO_CENTS_PER_USD), ("tokens", 1)):
        limits: list[FieldsJson] = [
            f"{amount_text(limit.amount, scale)}/{_WINDOW_NAMES[limit.window]}"
            for limit in spec.limits
            if limit.unit == unit
        ]
        if limits:
            fields[unit] = limits
    fields["per"] = spec.per
    if spec.prices_dearest:
        fields["unpriced"] = "dearest"
    if spec.warnings:
        fields["warn"] = list[FieldsJson](spec.warnings)
    return fields


def price_table_fields(table: PriceTable) -> dict[str, FieldsJson]:
    """Return the fields of a table of prices."""
    return {"date": table.date, "models": [dict(price_fields(price)) for price in table.prices]}


def price_fields(price: Price) -> dict[str, FieldsJson]:
    """Return the fields of a price."""
    fields: dict[str, FieldsJson] = {
        "match": price.match.text,
        "per_million": _amounts(price.base.parts, MICRO_CENTS_PER_USD),
    }
    if price.above:
        fields["above"] = [
            {"input_over": bound, **_amounts(parts.parts, MICRO_CENTS_PER_USD)}
            for bound, parts in price.above
        ]
    if price.tiers:
        fields["tiers"] = _amounts(price.tiers, TIER_UNIT)
    if price.per_call:
        fields["per_call"] = _amounts(price.per_call, MICRO_CENTS_PER_USD)
    if price.valid_from:
        fields["valid_from"] = price.valid_from
    return fields


def amount_text(amount: int, scale: int) -> str:
    """Return an amount in whole units as people write it, without zeros at its end."""
    return format((Decimal(amount) / scale).normalize(), "f")


def _amounts(parts: Mapping[str, int], scale: int) -> dict[str, FieldsJson]:
    return {name: amount_text(amount, scale) for name, amount in parts.items()}
