"""The bounds that an allowed call gets before it is sent: those of the rules, or what a budget has left."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from egress.inspect.inspector import FactValue
from egress.inspect.llm.body_rewrite import BodyChange
from egress.inspect.llm.llm_call import LlmCall
from egress.rules.decide.llm_predicate import LlmTerms
from egress.types import value_class

MIN_CLAMPED_TOKENS: Final = 256
"""The least output to which a call is lowered for a budget: an answer cut shorter is of no use."""


@value_class
class CallPlan:
    """A call as it will be sent."""

    call: LlmCall
    max_output: int = 0
    """Tokens of each answer."""
    choices: int = 1
    adds_usage: bool = False

    @property
    def output(self) -> int:
        """Tokens of all answers."""
        return self.max_output * self.choices

    @property
    def change(self) -> BodyChange:
        """The difference to the body that came."""
        return BodyChange(
            max_output=None if self.max_output == (self.call.max_output or 0) else self.max_output,
            choices=None if self.choices == self.call.choices else self.choices,
            adds_usage=self.adds_usage,
        )

    def within(self, tokens: int) -> CallPlan | None:
        """Return the plan with so many tokens of output; None where too few are left."""
        each = tokens // self.choices
        return replace(self, max_output=each) if each >= MIN_CLAMPED_TOKENS else None

    def facts(self) -> dict[str, FactValue]:
        """Return what was changed, for the record."""
        found: dict[str, FactValue] = {}
        change = self.change
        if change.max_output is not None:
            stated = "none" if self.call.max_output is None else str(self.call.max_output)
            found["llm_clamped"] = f"{stated} -> {change.max_output}"
        if change.choices is not None:
            found["llm_choices_clamped"] = f"{self.call.choices} -> {change.choices}"
        return found


def plan_call(terms: LlmTerms, call: LlmCall) -> CallPlan:
    """Return the call within the bounds of the rules, which allow it as it is or lower it."""
    choices = min(call.choices, terms.choices) if terms.clamps else call.choices
    output = call.max_output
    if terms.max_output is not None and call.api != "openai-embeddings":
        most = terms.max_output // choices
        output = most if output is None else min(output, most)
    # Without the usage a stream would count as if it had used all that it reserved.
    adds_usage = bool(terms.budgets) and not call.has_usage and not call.is_signed
    return CallPlan(call, output or 0, choices, adds_usage)
