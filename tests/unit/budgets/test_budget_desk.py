"""The desk: what a call reserves, what it is charged, and what the record says."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from egress.budgets.budget_desk import (
    OUTPUT_TOKENS_PER_SECOND,
    BudgetDesk,
    BudgetJournalError,
    BudgetRefusal,
    Reservation,
    charged_usage,
    most_amounts,
)
from egress.budgets.call_plan import CallPlan
from egress.budgets.ledger import MAX_AMOUNT, Amounts, JournalEntry, Ledger
from egress.inspect.llm.answer_meter import MeteredAnswer
from egress.inspect.llm.usage import MAX_COUNTED_TOKENS, Usage
from egress.rules.decide.budget_spec import BudgetScope, BudgetSpec
from egress.rules.decide.llm_predicate import LlmTerms
from egress.rules.decide.policy import Policy
from egress.types import Identity
from tests.unit.budgets.specs import HAIKU, OPUS, TABLE, USD, limit, plan, spec, tokens

NOW = 1_000_000 * 60
SANDBOX = Identity("s")
TERMS = LlmTerms("anthropic", max_output=16_000, budgets=("agents",))
DONE = MeteredAnswer(200, Usage(input=50, output=100, model="claude-haiku-4"), is_whole=True)


class Till:
    """A desk with one budget."""

    def __init__(self, budget: BudgetSpec, terms: LlmTerms = TERMS) -> None:
        self.desk = BudgetDesk(Ledger(), lambda: NOW)
        self.policy = Policy(budgets={budget.name: budget}, prices=TABLE)
        self.budget = budget
        self.terms = terms

    def reserve(
        self,
        asked: CallPlan,
        identity: Identity = SANDBOX,
        secrets: tuple[str, ...] = (),
    ) -> Reservation | BudgetRefusal:
        return self.desk.reserve(self.policy, identity, secrets, self.terms, asked)

    def taken(self, asked: CallPlan) -> Reservation:
        made = self.reserve(asked)
        assert isinstance(made, Reservation)
        return made

    def left(self, scope: str = "s") -> int | None:
        return self.desk.ledger.room([(self.budget, scope)], "usd", NOW)


def test_a_call_reserves_the_most_that_it_can_cost() -> None:
    # An input of 100 tokens may all be written to the cache, at 1.25 dollars a million, or have no price.
    amounts = most_amounts(plan(sent=100, output=1000), HAIKU)
    assert amounts.tokens == 1100
    assert amounts.micro_cents == (100 * 5 * USD + 1000 * 5 * USD) // 10**6


def test_settling_charges_what_was_used_and_the_record_says_it() -> None:
    till = Till(spec(limit("usd", USD)))
    facts = till.desk.settle(till.taken(plan()), DONE, is_sent=True)
    assert facts["llm_cost"] == (50 * USD + 100 * 5 * USD) // 10**6
    assert till.left() == USD - int(facts["llm_cost"])
    assert facts == {
        "llm_input": 50,
        "llm_output": 100,
        "llm_model": "claude-haiku-4",
        "llm_budget": "agents",
        "llm_cost": facts["llm_cost"],
        "llm_charged": 150,
        "llm_prices": "digest",
    }


def test_vector_8_a_stream_that_was_cut_is_charged_its_input_and_the_output_that_was_seen() -> None:
    seen = Usage(input=10, cache_read=90, output=1)
    cut = MeteredAnswer(200, seen, text_bytes=41, is_stream=True)
    assert charged_usage(plan(), cut, is_sent=True) == (replace(seen, output=11), "partial")
    unknown = MeteredAnswer(200, None, text_bytes=40, is_stream=True)
    usage, note = charged_usage(plan(sent=77), unknown, is_sent=True)
    assert usage is not None
    assert (usage.input, usage.output, note) == (77, 10, "partial")
    till = Till(spec(limit("usd", USD)))
    till.desk.settle(till.taken(plan()), cut, is_sent=True)
    assert next(till.desk.ledger.states([till.budget], NOW)).reserved == 0


@pytest.mark.parametrize("status", [429, 500, 529, 400])
def test_vector_10_an_error_without_usage_costs_nothing(status: int) -> None:
    till = Till(spec(limit("usd", USD)))
    facts = till.desk.settle(till.taken(plan()), MeteredAnswer(status, is_whole=True), is_sent=True)
    assert facts["llm_cost"] == 0
    assert till.left() == USD


def test_an_error_that_states_usage_is_charged() -> None:
    failed = MeteredAnswer(500, Usage(input=5), is_whole=True)
    assert charged_usage(plan(), failed, is_sent=True) == (Usage(input=5), "")


@pytest.mark.parametrize(
    "answer",
    [
        MeteredAnswer(200, is_whole=True),
        MeteredAnswer(200, is_whole=True, is_stream=True),
        MeteredAnswer(200, text_bytes=40),
        MeteredAnswer(200, is_stream=True, has_unread=True),
        MeteredAnswer(0),
    ],
)
def test_vector_18_a_call_whose_usage_is_missing_is_charged_what_it_reserved(answer: MeteredAnswer) -> None:
    till = Till(spec(limit("usd", USD)))
    taken = till.taken(plan())
    facts = till.desk.settle(taken, answer, is_sent=True)
    assert (facts["llm_cost"], facts["llm_usage"]) == (taken.amounts.micro_cents, "missing")
    assert till.left() == USD - taken.amounts.micro_cents


def test_a_call_that_was_not_sent_costs_nothing() -> None:
    till = Till(spec(limit("usd", USD)))
    facts = till.desk.settle(till.taken(plan()), MeteredAnswer(), is_sent=False)
    assert (facts["llm_cost"], till.left()) == (0, USD)


def test_vector_17_a_model_without_a_price_is_denied_or_costs_as_much_as_the_dearest() -> None:
    assert Till(spec(limit("usd", USD))).reserve(plan("gpt-x")) == BudgetRefusal("llm.unpriced")
    till = Till(spec(limit("usd", USD), prices_dearest=True))
    taken = till.taken(plan("gpt-x"))
    assert taken.amounts == most_amounts(plan(), OPUS)
    facts = till.desk.settle(taken, MeteredAnswer(200, Usage(output=100), is_whole=True), is_sent=True)
    assert facts["llm_cost"] == 100 * 75 * USD // 10**6
    assert isinstance(Till(tokens(5000)).reserve(plan("gpt-x")), Reservation)


def test_the_model_that_answered_sets_the_price() -> None:
    till = Till(spec(limit("usd", 10 * USD)))
    taken = till.taken(plan())
    answer = MeteredAnswer(200, Usage(output=1000, model="claude-opus-9"), is_whole=True)
    facts = till.desk.settle(taken, answer, is_sent=True)
    assert facts["llm_cost"] == 1000 * 75 * USD // 10**6
    assert facts["llm_over_reserved"] == 1000 * 75 * USD // 10**6 - taken.amounts.micro_cents


def test_a_budget_that_has_too_little_denies_or_lowers_the_output() -> None:
    cost = most_amounts(plan(), HAIKU).micro_cents
    refused = Till(spec(limit("usd", cost - 1))).reserve(plan())
    assert refused == BudgetRefusal("llm.budget", "agents", 0)
    clamping = Till(spec(limit("usd", cost // 2)), replace(TERMS, clamps=True))
    taken = clamping.taken(plan())
    assert 256 <= taken.plan.output < 1000
    assert 0 <= cost // 2 - taken.amounts.micro_cents < 5 * USD // 10**6
    small = Till(tokens(100 + 255), replace(TERMS, clamps=True))
    assert isinstance(small.reserve(plan()), BudgetRefusal)
    enough = Till(tokens(100 + 256), replace(TERMS, clamps=True)).taken(plan())
    assert enough.plan.output == 256


def test_a_thousand_calls_at_once_stay_within_the_limit() -> None:
    limit_usd = 3 * USD
    till = Till(spec(limit("usd", limit_usd)), replace(TERMS, clamps=True))
    running = [
        made for _ in range(1000) if isinstance(made := till.reserve(plan(output=16_000)), Reservation)
    ]
    reserved = sum(each.amounts.micro_cents for each in running)
    one_token = 5 * USD // 10**6
    # The last call was lowered to the rest, so what is left buys less than the least that is of use.
    assert (
        limit_usd - 256 * one_token - most_amounts(plan(output=0), HAIKU).micro_cents < reserved <= limit_usd
    )
    spent = 0
    for number, each in enumerate(reversed(running)):
        used = Usage(input=100, output=each.plan.output * (number % 3) // 2, model="claude-haiku-4")
        facts = till.desk.settle(each, MeteredAnswer(200, used, is_whole=True), is_sent=True)
        spent += int(facts["llm_cost"])
        left = till.left()
        assert left is not None
        assert left >= 0
    assert till.left() == limit_usd - spent


def test_a_signed_body_is_not_lowered() -> None:
    till = Till(tokens(400), replace(TERMS, clamps=True))
    asked = plan()
    assert isinstance(till.reserve(replace(asked, call=replace(asked.call, is_signed=True))), BudgetRefusal)


@pytest.mark.parametrize(
    ("per", "scopes"),
    [
        ("sandbox", ("s",)),
        ("profile", ("profile:coding",)),
        ("secret", ("secret:a", "secret:b")),
        ("all", ("*",)),
    ],
)
def test_calls_are_added_up_by_the_scope_of_the_budget(per: BudgetScope, scopes: tuple[str, ...]) -> None:
    budget = replace(tokens(5000), per=per)
    till = Till(budget)
    till.reserve(plan(), Identity("s", "coding"), ("a", "b", "a"))
    assert tuple(state.scope for state in till.desk.ledger.states([budget], NOW)) == scopes


def test_a_call_without_a_budget_is_not_counted() -> None:
    till = Till(tokens(1), replace(TERMS, budgets=()))
    taken = till.taken(plan())
    assert taken.number == 0
    assert till.desk.settle(taken, DONE, is_sent=True) == {
        "llm_input": 50,
        "llm_output": 100,
        "llm_model": "claude-haiku-4",
    }


def test_a_budget_that_the_rules_do_not_have_sends_nothing() -> None:
    assert Till(tokens(5), replace(TERMS, budgets=("agents", "gone"))).reserve(plan()) == BudgetRefusal(
        "internal"
    )


def test_a_journal_that_cannot_be_written_sends_nothing_and_gives_nothing_back() -> None:
    entries: list[JournalEntry] = []

    def journal(entry: JournalEntry) -> None:
        entries.append(entry)
        if len(entries) != 1:
            raise BudgetJournalError("full")

    till = Till(spec(limit("usd", USD)))
    till.desk.ledger.journal = journal
    taken = till.taken(plan())
    facts = till.desk.settle(taken, DONE, is_sent=True)
    assert (facts["llm_usage"], facts["llm_cost"]) == ("unsettled", taken.amounts.micro_cents)
    assert till.left() == USD - taken.amounts.micro_cents
    assert till.reserve(plan()) == BudgetRefusal("llm.journal", wait=5)


def test_a_warning_is_noted_by_the_call_that_passes_it() -> None:
    till = Till(tokens(2000))
    facts = [
        till.desk.settle(
            till.taken(plan()), MeteredAnswer(200, Usage(output=used), is_whole=True), is_sent=True
        )
        for used in (700, 100, 850)
    ]
    assert [each.get("llm_warned") for each in facts] == [None, None, "agents 80%"]
    assert till.desk.settle(till.taken(plan(sent=0, output=300)), MeteredAnswer(), is_sent=True)[
        "llm_warned"
    ] == ("agents 95%")


def test_the_sandbox_learns_the_share_that_is_left() -> None:
    till = Till(tokens(2000))
    assert till.desk.header(till.taken(plan())) == "agents; left=45%"
    assert till.desk.header(Reservation(plan())) == ""


def test_an_odd_usage_is_noted() -> None:
    odd = MeteredAnswer(200, Usage(output=1, is_odd=True), is_whole=True)
    assert charged_usage(plan(), odd, is_sent=True) == (odd.usage, "odd")
    tools = Usage(output=1, tool_calls=(("web_search", 2),))
    till = Till(tokens(5000))
    facts = till.desk.settle(till.taken(plan()), MeteredAnswer(200, tools, is_whole=True), is_sent=True)
    assert facts["llm_tool_calls"] == "web_search=2"
    assert Amounts(1, 2).of("usd") == 1


class Clock:
    now = NOW


def test_a_stream_that_is_left_before_it_states_its_output_is_charged_by_its_time() -> None:
    """A model that thinks shows nothing of it: the client reads the text and leaves."""
    clock = Clock()
    for states_output, seconds, output in (
        (False, 0, 10),
        (False, 2, 2 * OUTPUT_TOKENS_PER_SECOND),
        (False, 3600, 1000),
        (False, -60, 10),
        (True, 3600, 10),
    ):
        till = Till(tokens(5000))
        till.desk.now = lambda: clock.now
        clock.now = NOW
        taken = till.taken(plan())
        clock.now = NOW + seconds
        left = MeteredAnswer(
            200, Usage(input=100, output=1), states_output=states_output, text_bytes=40, is_stream=True
        )
        facts = till.desk.settle(taken, left, is_sent=True)
        assert (facts["llm_charged"], facts["llm_usage"]) == (100 + output, "partial")


def test_a_usage_without_a_token_is_none() -> None:
    empty = MeteredAnswer(200, Usage(), is_whole=True)
    assert charged_usage(plan(), empty, is_sent=True) == (None, "missing")


@pytest.mark.parametrize("tier", ["priority", "fast", "ultrafast"])
def test_a_tier_that_may_be_dearer_needs_a_price(tier: str) -> None:
    asked = plan()
    asked = replace(asked, call=replace(asked.call, tier=tier))
    assert Till(spec(limit("usd", USD))).reserve(asked) == BudgetRefusal("llm.unpriced")
    assert isinstance(Till(tokens(5000)).reserve(asked), Reservation)
    till = Till(spec(limit("usd", USD)))
    till.policy = replace(till.policy, prices=replace(TABLE, prices=(replace(HAIKU, tiers={tier: 6000}),)))
    taken = till.taken(asked)
    assert taken.amounts.micro_cents == 6 * most_amounts(plan(), HAIKU).micro_cents
    plain = Till(spec(limit("usd", USD)))
    for usual in ("", "default", "flex"):
        asked = replace(asked, call=replace(asked.call, tier=usual))
        assert isinstance(plain.reserve(asked), Reservation)


def test_a_cheaper_tier_counts_where_the_answer_confirms_it() -> None:
    asked = plan()
    asked = replace(asked, call=replace(asked.call, tier="flex"))
    used = Usage(output=1000, model="claude-haiku-4")
    for tier, cost in (("", 5000), ("default", 5000), ("flex", 2500)):
        till = Till(spec(limit("usd", USD)))
        till.policy = replace(
            till.policy, prices=replace(TABLE, prices=(replace(HAIKU, tiers={"flex": 500}),))
        )
        answer = MeteredAnswer(200, replace(used, tier=tier), is_whole=True)
        facts = till.desk.settle(till.taken(asked), answer, is_sent=True)
        assert facts["llm_cost"] == cost * USD // 10**6


def test_a_usage_of_any_size_can_be_written_down() -> None:
    entries: list[bytes] = []
    till = Till(spec(limit("usd", MAX_AMOUNT)))
    till.desk.ledger.journal = lambda entry: entries.append(msgspec.json.encode(entry))
    till.policy = replace(till.policy, prices=replace(TABLE, prices=(replace(HAIKU, tiers={"x": 10**9}),)))
    most = MAX_COUNTED_TOKENS
    used = Usage(most, most, most, most, most, tier="x", model="claude-haiku-4")
    till.desk.settle(till.taken(plan()), MeteredAnswer(200, used, is_whole=True), is_sent=True)
    assert len(entries) == 2
    assert till.left() == 0
