"""Prices: which one counts, and what a call costs by it."""

from __future__ import annotations

from egress.inspect.llm.usage import Usage
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.price_table import MICRO_CENTS_PER_USD, PartPrices, Price, PriceTable, table_digest

USD = MICRO_CENTS_PER_USD


def price(match: str, output: int = 5, valid_from: str = "", **parts: int) -> Price:
    return Price(
        ValueGlob(match),
        PartPrices({"output": output * USD, **{k: v * USD for k, v in parts.items()}}),
        valid_from=valid_from,
    )


def test_the_exact_name_comes_before_the_longest_pattern() -> None:
    table = PriceTable((price("*"), price("claude-*"), price("claude-opus-*"), price("claude-opus-4")))
    for model, match in (
        ("claude-opus-4", "claude-opus-4"),
        ("claude-opus-5", "claude-opus-*"),
        ("gpt", "*"),
    ):
        found = table.price(model)
        assert found is not None
        assert found.match.text == match
    assert PriceTable((price("claude-*"),)).price("gpt") is None


def test_of_one_pattern_the_newest_price_that_is_valid_counts() -> None:
    table = PriceTable((price("m", 1), price("m", 2, "2026-01-01"), price("m", 3, "2027-01-01")))
    for today, output in (("2025-01-01", 1), ("2026-06-01", 2), ("2027-01-01", 3)):
        found = table.price("m", today)
        assert found is not None
        assert found.base.of("output") == output * USD


def test_a_part_without_a_price_costs_as_much_as_the_dearest() -> None:
    known = price("m", 5, input=1)
    assert known.cost(Usage(input=10**6)) == USD
    assert known.cost(Usage(cache_read=10**6)) == 5 * USD


def test_a_cost_is_rounded_up_once() -> None:
    cheap = Price(ValueGlob("m"), PartPrices({"output": 3}))
    assert cheap.cost(Usage(output=1)) == 1
    assert cheap.cost(Usage(input=333_333, output=1)) == 2
    assert cheap.cost(Usage()) == 0


def test_vector_24_above_a_size_other_prices_hold_for_all_parts() -> None:
    long = Price(
        ValueGlob("m"),
        PartPrices({"input": USD, "output": 2 * USD}),
        above=((200_000, PartPrices({"input": 10 * USD, "output": 20 * USD})),),
    )
    assert long.cost(Usage(input=200_000, output=100_000)) == (2 * USD + 2 * USD) // 10
    assert long.cost(Usage(input=100_000, cache_read=100_001, output=10**6)) > 20 * USD
    assert long.most(200_001, 0) == 200_001 * 20 * USD // 10**6
    assert long.most(200_000, 0) == 200_000 * 2 * USD // 10**6


def test_tiers_and_tools_have_prices_of_their_own() -> None:
    tiered = Price(
        ValueGlob("m"),
        PartPrices({"output": USD}),
        tiers={"batch": 500, "priority": 2000},
        per_call={"web_search": USD // 100},
    )
    assert tiered.cost(Usage(output=10**6, tier="batch")) == USD // 2
    assert tiered.cost(Usage(output=10**6, tier="default")) == USD
    assert tiered.cost(Usage(output=10**6, tier="other")) == 2 * USD
    assert tiered.cost(Usage(tool_calls=(("web_search", 2), ("unknown", 1)))) == 3 * USD // 100
    # A call that names no tier may get the dearest; one that names a cheaper tier may get the usual one.
    assert tiered.most(0, 10**6) == 2 * USD
    assert tiered.most(0, 10**6, "batch") == USD
    assert tiered.most(0, 10**6, "priority") == 2 * USD


def test_the_output_that_an_amount_pays_for() -> None:
    one = price("m", 5, input=1)
    for amount in (0, 1, 999, USD, 7 * USD + 3):
        tokens = one.output_within(amount, 100)
        assert tokens is not None
        assert tokens == 0 or one.most(100, tokens) <= amount
        assert one.most(100, tokens + 1) > amount
    assert Price(ValueGlob("m"), PartPrices({"output": 0, "input": 0})).output_within(0, 100) is None


def test_the_dearest_model_of_a_call_reserves() -> None:
    table = PriceTable((price("a", 1), price("b", 9)))
    for models, match in ((("a", "b"), "b"), (("a",), "a"), (("a", "x"), None)):
        found = table.of_models(models, or_dearest=False)
        assert (found.match.text if found else None) == match
    dearest = table.of_models(("x",), or_dearest=True)
    assert dearest is not None
    assert dearest.match.text == "b"
    assert PriceTable().of_models(("x",), or_dearest=True) is None
    assert len(table_digest("x")) == 16
