"""Compile `budgets:` and `prices:`, and check that rules name budgets that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Final

from egress.rules.compile.budget_writer import price_table_fields
from egress.rules.decide.budget_spec import DAY, HOUR, TOTAL, BudgetLimit, BudgetSpec, BudgetUnit
from egress.rules.decide.entry import Entry
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.llm_predicate import LlmPredicate
from egress.rules.decide.price_table import (
    MICRO_CENTS_PER_USD,
    NO_PRICES,
    PRICE_PARTS,
    TIER_UNIT,
    PartPrices,
    Price,
    PriceTable,
    table_digest,
)
from egress.rules.language.budget_models import BudgetItem, PartPricesItem, PriceItem, PricesItem
from egress.rules.language.document import Value
from egress.rules.language.report import DocumentCursor, MeaningError, Report, did_you_mean, quoted
from egress.rules.language.validation import validate
from egress.types import Place

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
_LIMIT: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,8})?)(k|M|G)? ?/ ?(hour|day|total)")
_WINDOWS: Final = {"hour": HOUR, "day": DAY, "total": TOTAL}
_SCALES: Final[Mapping[str | None, int]] = {None: 1, "k": 10**3, "M": 10**6, "G": 10**9}
_MAX_USD: Final = 10**9
_DECIMALS: Final = 8
"""Decimal places of dollars: a micro-cent has this many."""


class BudgetSections:
    """The budgets and prices of all rule files."""

    def __init__(self) -> None:
        self.budgets: dict[str, BudgetSpec] = {}
        self.prices = NO_PRICES
        self._prices_at: Place | None = None
        self._unsound: set[str] = set()
        """Budgets with errors: references to them are not reported."""

    def read_budget(self, name: str, value: Value, at: DocumentCursor) -> None:
        """Read a budget; report its mistakes."""
        model = validate(BudgetItem, value, at)
        if model is None:
            self._unsound.add(name)
        elif name in self.budgets:
            first = self.budgets[name].place
            at.key_error(f"duplicate budget {quoted(name)} (first at {first})", "keep one of them")
        else:
            self.budgets[name] = compile_budget(name, model, at)

    def read_prices(self, section: Value, at: DocumentCursor) -> None:
        """Read the table of prices, of which there is one; report its mistakes."""
        model = validate(PricesItem, section, at)
        if self._prices_at is not None:
            at.key_error(f"`prices` is set twice (first at {self._prices_at})", "keep one of them")
        elif model is not None:
            self.prices, self._prices_at = compile_prices(model, at), at.place

    def check_names(self, entries: Iterable[Entry], report: Report) -> None:
        """Report rules that name a budget that there is not, and budgets of money without any price."""
        for entry in entries:
            for rule in entry.allow:
                body = rule.widest.body
                for name in body.budgets if isinstance(body, LlmPredicate) else ():
                    self._check_name(name, rule.ref.place, report)

    def _check_name(self, name: str, place: Place, report: Report) -> None:
        spec = self.budgets.get(name)
        if spec is None and name not in self._unsound:
            hint = did_you_mean(name, self.budgets) if self.budgets else "write it under `budgets`"
            report.error(place, f"unknown budget {quoted(name)}", hint)
        elif spec is not None and spec.counts_money and not self.prices.prices:
            report.error(
                place,
                f"the budget {quoted(name)} counts dollars, and no model has a price",
                "write them under `prices`",
            )


def compile_budget(name: str, model: BudgetItem, at: DocumentCursor) -> BudgetSpec:
    """Compile a budget; report its mistakes."""
    if not _NAME.fullmatch(name):
        at.key_error(f"{quoted(name)} is not the name of a budget", "write lower case letters, digits and -")
    limits = [*_limits("usd", model.usd, at / "usd"), *_limits("tokens", model.tokens, at / "tokens")]
    if model.usd is None and model.tokens is None:
        at.error("a budget needs a limit", "write `usd: 20/day` or `tokens: 3M/hour`")
    windows = [(limit.unit, limit.window) for limit in limits]
    if len(set(windows)) < len(windows):
        at.error("two limits are about the same window", "keep the smaller one")
    return BudgetSpec(
        name,
        at.key_place,
        tuple(limits),
        per=model.per,
        prices_dearest=model.unpriced == "dearest",
        warnings=tuple(sorted(set(model.warn or ()))),
    )


def _limits(unit: BudgetUnit, written: str | list[str] | None, at: DocumentCursor) -> list[BudgetLimit]:
    if written is None:
        return []
    if isinstance(written, str):
        limit = at.parse(lambda text: _limit(unit, text), written)
        return [] if limit is None else [limit]
    made = [(at / number).parse(lambda text: _limit(unit, text), text) for number, text in enumerate(written)]
    return [limit for limit in made if limit is not None]


def _limit(unit: BudgetUnit, text: str) -> BudgetLimit:
    match = _LIMIT.fullmatch(text)
    if match is None or (unit == "usd" and match[2]):
        example = "20/day" if unit == "usd" else "3M/hour"
        raise MeaningError("this is not a limit", f"write N/hour, N/day or N/total, such as {example}")
    scale = MICRO_CENTS_PER_USD if unit == "usd" else _SCALES[match[2]]
    amount = Decimal(match[1]) * scale
    if amount != int(amount) or not amount:
        raise MeaningError("this is not a sensible amount", "write a number above zero")
    return BudgetLimit(unit, int(amount), _WINDOWS[match[3]])


# Prices ---------------------------------------------------------------------------------------


def compile_prices(model: PricesItem, at: DocumentCursor) -> PriceTable:
    """Compile a table of prices; report its mistakes."""
    _day(model.date, at / "date")
    prices = tuple(_price(item, at / "models" / number) for number, item in enumerate(model.models))
    seen: set[tuple[str, str]] = set()
    for number, price in enumerate(prices):
        if (price.match.text, price.valid_from) in seen:
            (at / "models" / number).error(f"{quoted(price.match.text)} has two prices", "keep one of them")
        seen.add((price.match.text, price.valid_from))
    table = PriceTable(prices, model.date)
    # The digest is that of the values, so that comments and spellings do not change it.
    return replace(table, digest=table_digest(json.dumps(price_table_fields(table), sort_keys=True)))


def _price(model: PriceItem, at: DocumentCursor) -> Price:
    above = [
        (item.input_over, _parts(item, at / "above" / number))
        for number, item in enumerate(model.above or ())
    ]
    return Price(
        ValueGlob(model.match),
        _parts(model.per_million, at / "per_million"),
        above=tuple(sorted(above, key=lambda each: -each[0])),
        tiers=_amounts(model.tiers or {}, at / "tiers", TIER_UNIT),
        per_call=_amounts(model.per_call or {}, at / "per_call", MICRO_CENTS_PER_USD),
        valid_from=_day(model.valid_from, at / "valid_from"),
    )


def _parts(model: PartPricesItem, at: DocumentCursor) -> PartPrices:
    written = {part: value for part in PRICE_PARTS if (value := getattr(model, part)) is not None}
    parts = _amounts(written, at, MICRO_CENTS_PER_USD)
    if not written:
        at.error("a price needs a part", "write at least `input` and `output`")
    # Never free: a table with a mistake is refused, and must not be used in spite of that.
    return PartPrices(parts or {"output": _MAX_USD * MICRO_CENTS_PER_USD})


def _amounts(written: Mapping[str, int | float | str], at: DocumentCursor, unit: int) -> dict[str, int]:
    # A number with a fraction counts as it is written: no amount is ever computed as a float.
    texts = {name: repr(value) if isinstance(value, float) else str(value) for name, value in written.items()}
    made = {name: (at / name).parse(lambda text: _amount(text, unit), text) for name, text in texts.items()}
    return {name: amount for name, amount in made.items() if amount is not None}


def _amount(text: str, unit: int) -> int:
    """Return an amount in whole units."""
    try:
        amount = Decimal(text) * unit
    except (InvalidOperation, ValueError):
        raise MeaningError("this is not an amount", "write a number, such as 0.25") from None
    if not amount.is_finite() or amount != amount.to_integral_value() or not 0 <= amount <= _MAX_USD * unit:
        raise MeaningError("this is not a sensible amount", "write a number from zero, with few decimals")
    return int(amount)


def _day(text: str | None, at: DocumentCursor) -> str:
    if text is None:
        return ""
    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    at.error("this is not a day", "write it as 2026-11-20")
    return ""
