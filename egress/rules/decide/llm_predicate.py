"""The predicate `llm`: calls of language models, by their models, output and tools of the vendor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from egress.inspect.llm.llm_call import LlmCall
from egress.inspect.llm.llm_kind import LLM_KEY
from egress.inspect.llm.usage import LlmApi
from egress.rules.decide.body_predicate import BodyMiss, BodyPredicate, FieldValue
from egress.rules.decide.globs import ValueGlob
from egress.types import value_class


@dataclass(frozen=True, slots=True)
class LlmPredicate:
    """Conditions on a call, and the budgets that it counts for."""

    api: LlmApi
    models: tuple[ValueGlob, ...] | None = None
    """None in a deny rule that is about all models."""
    max_output: int | None = None
    clamps: bool = False
    """A larger output is lowered; otherwise it is denied."""
    choices: int = 1
    server_tools: tuple[str, ...] | None = ()
    """None in a deny rule that is not about tools."""
    budgets: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return f"{LLM_KEY}.{self.api}"

    def expanded(self, item: object) -> tuple[object, ...] | None:
        del item
        return None

    def misses(self, item: object) -> BodyMiss | None:
        if not isinstance(item, LlmCall) or item.api != self.api:
            return BodyMiss("internal", "another kind of body")
        if any(not self._names(model) for model in item.models):
            shown = ", ".join(glob.text for glob in self.models or ())
            return BodyMiss("llm.model", f"only models {shown}")
        if others := sorted(set(item.server_tools) - set(self.server_tools or ())):
            return BodyMiss("llm.server_tool", f"no tools of the vendor: {', '.join(others)}", nearness=1)
        if item.is_unmetered and self.budgets:
            return BodyMiss("llm.unmetered", "only answers whose usage can be seen", nearness=2)
        return self._misses_output(item)

    def _misses_output(self, call: LlmCall) -> BodyMiss | None:
        if call.choices > self.choices and not self.clamps:
            return BodyMiss("llm.choices", f"at most {self.choices} answers at once", nearness=3)
        most = self.max_output
        if most is None:
            return None
        is_within = call.max_output is not None and call.max_output * call.choices <= most
        if is_within and call.choices <= self.choices:
            return None
        if not self.clamps:
            return BodyMiss("llm.max_output", f"an output of at most {most} tokens, stated", nearness=3)
        # The client vouches for bytes that would not be sent.
        return BodyMiss("llm.signed", "a body that can be changed", nearness=3) if call.is_signed else None

    def _names(self, model: str, *, ignore_case: bool = False) -> bool:
        return any(glob.matches(model, ignore_case=ignore_case) for glob in self.models or ())

    def denies(self, item: object) -> bool:
        if not isinstance(item, LlmCall):
            return True
        if self.models is not None and not any(self._names(each, ignore_case=True) for each in item.models):
            return False
        return self.server_tools is None or not set(self.server_tools).isdisjoint(item.server_tools)

    def fields(self) -> Mapping[str, FieldValue]:
        fields: dict[str, FieldValue] = {"api": self.api}
        if self.models is not None:
            fields["models"] = [glob.text for glob in self.models]
        if self.max_output is not None:
            fields["max_output"] = self.max_output
        if self.clamps:
            fields["over"] = "clamp"
        if self.choices != 1:
            fields["choices"] = self.choices
        if self.server_tools:
            fields["server_tools"] = list(self.server_tools)
        if self.budgets:
            fields["budget"] = list(self.budgets)
        return fields


@value_class
class LlmTerms:
    """The terms of an allowed call, by all rules that cover it together."""

    api: LlmApi
    max_output: int | None = None
    choices: int = 1
    clamps: bool = False
    """The call may be lowered to what a budget has left."""
    budgets: tuple[str, ...] = ()


def llm_terms(predicates: Sequence[BodyPredicate | None]) -> LlmTerms | None:
    """Return the terms of a call that rules with these predicates cover.

    Of several rules the widest bounds count, as for any allow; and every budget, since no rule opens what
    another one counts.
    """
    known = [each for each in predicates if isinstance(each, LlmPredicate)]
    if not known:
        return None
    bounds = [each.max_output for each in known if each.max_output is not None]
    return LlmTerms(
        known[0].api,
        max_output=max(bounds) if len(bounds) == len(known) else None,
        choices=max(each.choices for each in known),
        clamps=any(each.clamps for each in known),
        budgets=tuple(dict.fromkeys(name for each in known for name in each.budgets)),
    )
