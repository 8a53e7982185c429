"""The shapes of `budgets:` and `prices:` of a rule file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from egress.rules.language.strict_model import Model, by_exact_type

BudgetLimits = Annotated[
    Annotated[str, Tag("text")] | Annotated[list[str], Tag("list")],
    by_exact_type({str: "text", list: "list"}),
]
Money = Annotated[
    Annotated[int, Tag("a number")] | Annotated[float, Tag("a number")] | Annotated[str, Tag("text")],
    by_exact_type({int: "a number", float: "a number", str: "text"}),
]


class BudgetItem(Model):
    """The most that calls of language models may cost."""

    usd: BudgetLimits | None = Field(
        None, description="Dollars in a window, such as `20/day`: `N/hour`, `N/day`, `N/total`, or a list."
    )
    tokens: BudgetLimits | None = Field(
        None, description="Tokens in a window, such as `3M/hour`: with `k`, `M` or `G`, or a list."
    )
    per: Literal["sandbox", "profile", "secret", "all"] = Field(
        "sandbox",
        description="Whose calls are added up: those of each sandbox, profile or secret, or all of them.",
    )
    unpriced: Literal["deny", "dearest"] = Field(
        "deny",
        description="A model without a price: its calls are denied, or cost as much as the `dearest`.",
    )
    warn: list[Annotated[int, Field(ge=1, le=100)]] | None = Field(
        None, description="Percentages of a limit whose passing is logged once, such as `[80, 95]`."
    )


class PartPricesItem(Model):
    """Dollars for a million tokens of each part."""

    input: Money | None = Field(None, description="Tokens that are sent.")
    cache_read: Money | None = Field(None, description="Tokens that are read from the vendor's cache.")
    cache_write_5m: Money | None = Field(None, description="Tokens that are kept there for five minutes.")
    cache_write_1h: Money | None = Field(None, description="Tokens that are kept there for an hour.")
    output: Money | None = Field(None, description="Tokens of the answer, with its thoughts.")


class AbovePricesItem(PartPricesItem):
    """Other prices for calls with a long input."""

    input_over: Annotated[int, Field(ge=1)] = Field(description="The prices hold for more input tokens.")


class PriceItem(Model):
    """The price of the models that a pattern fits."""

    match: str = Field(description="Name of the model, with `*` for any run; the longest pattern counts.")
    per_million: PartPricesItem = Field(
        description="Dollars for a million tokens of each part; a part that is missing costs as the dearest."
    )
    above: list[AbovePricesItem] | None = Field(
        None, description="Other prices, for all parts of a call with a longer input."
    )
    tiers: dict[str, Money] | None = Field(
        None, description="Factors of the vendor's service tiers, such as `{batch: 0.5, priority: 2}`."
    )
    per_call: dict[str, Money] | None = Field(
        None, description="Dollars for each use of a tool of the vendor, such as `{web_search: 0.01}`."
    )
    valid_from: str | None = Field(None, description="Day from which it holds, such as `2026-11-01`.")


class PricesItem(Model):
    """Prices of models, as of a day."""

    date: str = Field(description="Day on which the prices were read, such as `2026-11-20`.")
    models: list[PriceItem] = Field(description="The prices.")
