"""Reserves the cost of a call before it is sent, and settles it when its answer has come.

The desk knows the ledger, the rules and a clock. It belongs to one proxy; every exchange asks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from egress.budgets.call_plan import CallPlan
from egress.budgets.ledger import MAX_AMOUNT, NEVER_REOPENS, NO_AMOUNTS, Amounts, Ledger, Shortage
from egress.errors import EgressError
from egress.inspect.inspector import FactValue, fact_text
from egress.inspect.llm.answer_meter import MeteredAnswer
from egress.inspect.llm.usage import Usage
from egress.rules.decide.budget_spec import BudgetSpec
from egress.rules.decide.llm_predicate import LlmTerms
from egress.rules.decide.policy import Policy
from egress.rules.decide.price_table import Price, PriceTable
from egress.types import Identity, value_class

BYTES_PER_OUTPUT_TOKEN: Final = 4
"""Bytes of text that count as a token where a stream ended before it stated its usage."""
OUTPUT_TOKENS_PER_SECOND: Final = 250
"""Tokens that a model may make in a second, and that a stream need not show: thoughts above all."""
JOURNAL_WAIT: Final = 5
"""Seconds after which a call may try again that could not be written down."""
_HTTP_ERROR: Final = 400


class BudgetJournalError(EgressError):
    """The journal of the budgets cannot be written, so no call may be sent."""

    code = "llm.journal"
    exit_status = 3


@value_class
class BudgetRefusal:
    """A call that is not sent."""

    code: str
    budget: str = ""
    wait: int = 0
    """Seconds until there is room; 0 where waiting does not help."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A call that may be sent, with what it has reserved."""

    plan: CallPlan
    number: int = 0
    """Of the ledger; 0 for a call that no budget counts."""
    amounts: Amounts = field(default_factory=Amounts)
    prices: PriceTable = field(default_factory=PriceTable)
    price: Price | None = None
    today: str = ""
    claims: tuple[tuple[BudgetSpec, str], ...] = ()
    """The budgets that it counts for, each with whose account it is."""
    at: int = 0
    """When it was reserved."""


@dataclass(slots=True)
class BudgetDesk:
    """The one place at which calls are reserved and settled."""

    ledger: Ledger
    now: Callable[[], int]
    """UTC in whole seconds."""
    charged: dict[str, Amounts] = field(default_factory=dict)
    """What was charged since the start, by budget."""

    def reserve(
        self, policy: Policy, identity: Identity, secrets: tuple[str, ...], terms: LlmTerms, plan: CallPlan
    ) -> Reservation | BudgetRefusal:
        """Reserve what the call can cost, or lower it to what is left; `secrets` are those it will carry."""
        if not terms.budgets:
            return Reservation(plan)
        claims = tuple(
            (spec, scope)
            for name in terms.budgets
            if (spec := policy.budgets.get(name)) is not None
            for scope in _scopes(spec, identity, secrets)
        )
        if len({spec.name for spec, _ in claims}) < len(terms.budgets):
            return BudgetRefusal("internal")
        now = self.now()
        today = _day(now)
        or_dearest = all(spec.prices_dearest for spec, _ in claims if spec.counts_money)
        price = policy.prices.of_models(plan.call.models, or_dearest=or_dearest, today=today)
        is_priced = price is not None and price.knows_tier(plan.call.tier)
        if not is_priced and any(spec.counts_money for spec, _ in claims):
            return BudgetRefusal("llm.unpriced")
        taken = self._take(claims, plan, price, now, may_shrink=terms.clamps and not plan.call.is_signed)
        if not isinstance(taken, tuple):
            return taken
        number, amounts, plan = taken
        return Reservation(plan, number, amounts, policy.prices, price, today, claims, now)

    def _take(
        self,
        claims: Sequence[tuple[BudgetSpec, str]],
        plan: CallPlan,
        price: Price | None,
        now: int,
        *,
        may_shrink: bool,
    ) -> tuple[int, Amounts, CallPlan] | BudgetRefusal:
        amounts = most_amounts(plan, price)
        short = self.ledger.shortage(claims, amounts, now)
        if short is not None and may_shrink and plan.max_output:
            smaller = self._shrunk(claims, plan, price, now)
            if smaller is not None:
                plan, amounts = smaller, most_amounts(smaller, price)
                short = self.ledger.shortage(claims, amounts, now)
        if short is not None:
            return _refusal(short)
        try:
            number = self.ledger.reserve(claims, amounts, now)
        except BudgetJournalError as error:
            return BudgetRefusal(error.code, wait=JOURNAL_WAIT)
        return (number, amounts, plan) if isinstance(number, int) else _refusal(number)

    def _shrunk(
        self, claims: Sequence[tuple[BudgetSpec, str]], plan: CallPlan, price: Price | None, now: int
    ) -> CallPlan | None:
        """Return the plan with the output that is left in every budget."""
        sent = plan.call.input_tokens
        rooms = [plan.output]
        tokens = self.ledger.room(claims, "tokens", now)
        if tokens is not None:
            rooms.append(tokens - sent)
        money = self.ledger.room(claims, "usd", now)
        if money is not None and price is not None:
            within = price.output_within(money, sent, plan.call.tier)
            rooms += [] if within is None else [within]
        return plan.within(min(rooms))

    def settle(self, taken: Reservation, answer: MeteredAnswer, *, is_sent: bool) -> Mapping[str, FactValue]:
        """Settle a call by its answer, once; return the findings for its record."""
        seconds = max(0, self.now() - taken.at)
        usage, note = charged_usage(taken.plan, answer, is_sent=is_sent, seconds=seconds)
        facts: dict[str, FactValue] = dict(taken.plan.facts()) if is_sent else {}
        if usage is not None:
            facts |= _usage_facts(usage)
        if not taken.number:
            return facts
        amounts = self._cost(taken, usage)
        try:
            self.ledger.settle(taken.number, amounts, self.now())
        except BudgetJournalError:
            # What cannot be written down stays reserved, and counts in full after a restart.
            amounts, note = taken.amounts, "unsettled"
        else:
            warned = self.ledger.warned(taken.claims, amounts, self.now())
            if warned:
                facts["llm_warned"] = fact_text(", ".join(warned))
        names = dict.fromkeys(spec.name for spec, _ in taken.claims)
        for name in names:
            before = self.charged.get(name, NO_AMOUNTS)
            self.charged[name] = Amounts(
                before.micro_cents + amounts.micro_cents, before.tokens + amounts.tokens
            )
        facts |= {
            "llm_budget": fact_text(" ".join(names)),
            "llm_cost": amounts.micro_cents,
            "llm_charged": amounts.tokens,
        }
        if taken.prices.digest:
            facts["llm_prices"] = taken.prices.digest
        if note:
            facts["llm_usage"] = note
        over = max(amounts.micro_cents - taken.amounts.micro_cents, 0)
        if over:
            facts["llm_over_reserved"] = over
        return facts

    def header(self, taken: Reservation) -> str:
        """Return which budget of a call is nearest to its end, for the sandbox; empty for none."""
        left = self.ledger.share_left(taken.claims, self.now()) if taken.number else None
        return "" if left is None else f"{left[0]}; left={left[1]}%"

    def used(self, policy: Policy) -> dict[str, float]:
        """Return for each budget the share that its fullest account has spent or reserved."""
        found = dict.fromkeys(policy.budgets, 0.0)
        for state in self.ledger.states(policy.budgets.values(), self.now()):
            share = (state.spent + state.reserved) / state.limit.amount
            found[state.budget] = max(found[state.budget], share)
        return found

    def _cost(self, taken: Reservation, usage: Usage | None) -> Amounts:
        if usage is None:
            return taken.amounts
        # The model that answered, or else the one that was asked for.
        price = taken.prices.price(usage.model, taken.today) or taken.price
        # A tier that the answer does not confirm counts only where it is dearer.
        tiers = (usage.tier,) if usage.tier else ("", taken.plan.call.tier)
        money = 0 if price is None else max(price.cost(replace(usage, tier=tier)) for tier in tiers)
        return Amounts(min(money, MAX_AMOUNT), usage.tokens)


def most_amounts(plan: CallPlan, price: Price | None) -> Amounts:
    """Return the most that a call can cost, if its input is as large as estimated."""
    sent = plan.call.input_tokens
    money = 0 if price is None else price.most(sent, plan.output, plan.call.tier)
    return Amounts(money, sent + plan.output)


def charged_usage(
    plan: CallPlan, answer: MeteredAnswer, *, is_sent: bool, seconds: int = 0
) -> tuple[Usage | None, str]:
    """Return the usage that a call is charged for, and a note; None charges what it has reserved.

    `seconds` is the time since it was reserved.
    """
    if not is_sent:
        return Usage(), ""
    usage = answer.usage
    if not answer.status:
        # The vendor may have worked for an answer that nobody waited for.
        return None, "missing"
    if usage is None and answer.status >= _HTTP_ERROR:
        return Usage(), ""
    if usage is not None and answer.is_whole and (usage.tokens or answer.status >= _HTTP_ERROR):
        return usage, "odd" if usage.is_odd else ""
    if answer.is_whole or not answer.is_stream or answer.has_unread:
        return None, "missing"
    # A client could leave just before the usage comes, and again and again pay for the text alone.
    hidden = 0 if answer.states_output else min(plan.output, seconds * OUTPUT_TOKENS_PER_SECOND)
    return _partial_usage(plan, usage or Usage(), answer.text_bytes, hidden), "partial"


def _partial_usage(plan: CallPlan, usage: Usage, text_bytes: int, hidden: int) -> Usage:
    """Return the usage of a stream that ended early: its input in full, and the output that was seen.

    `hidden` is the output that may have been made besides.
    """
    seen = max(usage.output, -(-text_bytes // BYTES_PER_OUTPUT_TOKEN), hidden)
    return Usage(
        usage.input if usage.input_total else plan.call.input_tokens,
        usage.cache_read,
        usage.cache_write_5m,
        usage.cache_write_1h,
        seen,
        usage.reasoning,
        usage.tool_calls,
        usage.tier or plan.call.tier,
        usage.model,
        usage.is_odd,
    )


def _usage_facts(usage: Usage) -> dict[str, FactValue]:
    counts = {
        "llm_input": usage.input,
        "llm_cache_read": usage.cache_read,
        "llm_cache_write": usage.cache_write_5m + usage.cache_write_1h,
        "llm_output": usage.output,
        "llm_reasoning": usage.reasoning,
    }
    found: dict[str, FactValue] = {name: count for name, count in counts.items() if count}
    if usage.model:
        found["llm_model"] = usage.model
    if usage.tool_calls:
        found["llm_tool_calls"] = " ".join(f"{name}={count}" for name, count in usage.tool_calls)
    return found


def _scopes(spec: BudgetSpec, identity: Identity, secrets: tuple[str, ...]) -> tuple[str, ...]:
    if spec.per == "sandbox":
        return (identity.sandbox,)
    # No sandbox has a name with a colon or a star.
    if spec.per == "profile":
        return (f"profile:{identity.profile or ''}",)
    if spec.per == "secret":
        # A call that carries several secrets counts for each of them.
        return tuple(f"secret:{name}" for name in dict.fromkeys(secrets or ("",)))
    return ("*",)


def _refusal(short: Shortage) -> BudgetRefusal:
    return BudgetRefusal("llm.budget", short.budget, 0 if short.wait == NEVER_REOPENS else short.wait)


def _day(now: int) -> str:
    return datetime.fromtimestamp(now, UTC).date().isoformat()
