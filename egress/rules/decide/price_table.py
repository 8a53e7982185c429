"""Prices of models, as data with a digest, and the cost of a call.

Prices are micro-cents for a million tokens, so the cost of a call is one sum of integers, rounded up once. In
doubt a call costs more: a part without a price costs as much as the dearest known part, and of several prices
the dearest reserves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from egress.inspect.llm.usage import Usage
from egress.rules.decide.globs import ValueGlob
from egress.types import value_class

MICRO_CENTS_PER_USD: Final = 100_000_000
_TOKENS_PER_PRICE: Final = 1_000_000
TIER_UNIT: Final = 1000
"""The factor of a tier is in thousandths."""
PRICE_PARTS: Final = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
_INPUT_PARTS: Final = PRICE_PARTS[:-1]
_USUAL_TIERS: Final = frozenset(
    {"", "default", "standard", "standard_only", "on_demand", "scale", "reserved", "flex", "batch"}
)
"""Tiers that cost no more than the prices of the table say."""


@value_class
class PartPrices:
    """Micro-cents for a million tokens of each part; a part that is missing costs as much as the dearest."""

    parts: Mapping[str, int]

    def of(self, part: str) -> int:
        known = self.parts.get(part)
        return max(self.parts.values()) if known is None else known

    def cost(self, usage: Usage) -> int:
        """Return the cost in micro-cents times a million."""
        return sum(getattr(usage, part) * self.of(part) for part in PRICE_PARTS)

    @property
    def dearest_input(self) -> int:
        return max(self.of(part) for part in _INPUT_PARTS)


@dataclass(frozen=True, slots=True)
class Price:
    """The prices of the models that a pattern fits."""

    match: ValueGlob
    base: PartPrices
    above: tuple[tuple[int, PartPrices], ...] = ()
    """Prices of all parts of a call with more input tokens than this; the largest bound first."""
    tiers: Mapping[str, int] = field(default_factory=dict)
    """The factor of a service tier, in thousandths."""
    per_call: Mapping[str, int] = field(default_factory=dict)
    """Micro-cents for each use of a tool of the vendor."""
    valid_from: str = ""

    def cost(self, usage: Usage) -> int:
        """Return the cost of a call in micro-cents."""
        size = usage.input_total
        parts = next((each for bound, each in self.above if size > bound), self.base)
        factor = self._factor(usage.tier)
        # Every tool that has no price of its own costs as much as the dearest one.
        dearest = max(self.per_call.values(), default=0)
        tools = sum(count * self.per_call.get(name, dearest) for name, count in usage.tool_calls)
        return -(-parts.cost(usage) * factor // (_TOKENS_PER_PRICE * TIER_UNIT)) + tools

    def most(self, input_tokens: int, output_tokens: int, tier: str = "") -> int:
        """Return the most that a call with so many tokens can cost, whatever part they are."""
        fixed, each = self._most_parts(input_tokens, tier)
        return -(-(fixed + each * output_tokens) // (_TOKENS_PER_PRICE * TIER_UNIT))

    def output_within(self, amount: int, input_tokens: int, tier: str = "") -> int | None:
        """Return how many output tokens so many micro-cents pay for; None for any number."""
        fixed, each = self._most_parts(input_tokens, tier)
        if not each:
            return None
        return max(0, (amount * _TOKENS_PER_PRICE * TIER_UNIT - fixed) // each)

    def knows_tier(self, tier: str) -> bool:
        """Tell whether the price of a tier is known, or no higher than that of the usual one."""
        return tier in self.tiers or tier in _USUAL_TIERS

    def _factor(self, tier: str) -> int:
        known = self.tiers.get(tier)
        if known is not None:
            return known
        return TIER_UNIT if tier in _USUAL_TIERS else max([TIER_UNIT, *self.tiers.values()])

    def _most_parts(self, input_tokens: int, tier: str) -> tuple[int, int]:
        reached = [self.base, *(each for bound, each in self.above if input_tokens > bound)]
        # The tier of a call that names none is for the vendor to choose.
        known = self.tiers.get(tier)
        # Nor does asking for a cheaper one make it so.
        factor = max([TIER_UNIT, *(self.tiers.values() if known is None else (known,))])
        fixed = input_tokens * max(each.dearest_input for each in reached) * factor
        return fixed, max(each.of("output") for each in reached) * factor

    @property
    def rank(self) -> int:
        """How dear it is, to find the dearest of a table."""
        return self.most(_TOKENS_PER_PRICE, _TOKENS_PER_PRICE)


@dataclass(frozen=True, slots=True)
class PriceTable:
    """All prices that the rules have. `digest` names them in records."""

    prices: tuple[Price, ...] = ()
    date: str = ""
    """The day on which the prices were read."""
    digest: str = ""

    def price(self, model: str, today: str = "") -> Price | None:
        """Return the price of a model: by its exact name, or else by the longest pattern."""
        fitting = [each for each in self.prices if each.match.matches(model) and _is_valid(each, today)]
        # Among entries of one pattern the newest that is valid counts.
        return max(
            fitting,
            key=lambda each: ("*" not in each.match.text, len(each.match.text), each.valid_from),
            default=None,
        )

    def dearest(self, today: str = "") -> Price | None:
        """Return the dearest price, for a model that has none."""
        valid = [each for each in self.prices if _is_valid(each, today)]
        return max(valid, key=lambda each: each.rank, default=None)

    def of_models(self, models: Iterable[str], *, or_dearest: bool, today: str = "") -> Price | None:
        """Return the price to reserve by: the dearest of all models that a call can reach.

        None if one of them has no price, unless the dearest stands for it.
        """
        found: list[Price] = []
        for model in models:
            price = self.price(model, today) or (self.dearest(today) if or_dearest else None)
            if price is None:
                return None
            found.append(price)
        return max(found, key=lambda each: each.rank, default=None)


NO_PRICES: Final = PriceTable()


def table_digest(text: str) -> str:
    """Return the name of a table in records: the beginning of the SHA-256 of its text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def _is_valid(price: Price, today: str) -> bool:
    # Days are written alike, so their order is that of their texts.
    return not price.valid_from or not today or price.valid_from <= today
