"""The body gate: judge the facts of a request by the rules whose heads fit it.

Every item of the facts has to be covered by some allow rule, and different items may be covered by different
rules. Any deny rule that fits any item denies the request. A body without facts is denied, whatever else
holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from egress.inspect.body_head import head_refusal
from egress.inspect.inspector import BodyKind, Facts, Unreadable, fact_text
from egress.inspect.kinds import KINDS
from egress.rules.decide import paths
from egress.rules.decide.body_predicate import BodyMiss, BodyPredicate
from egress.rules.decide.entry import Rule
from egress.rules.decide.host_route import HostRoute, MethodPlan
from egress.rules.decide.llm_predicate import llm_terms
from egress.rules.decide.mcp_predicate import answer_terms
from egress.rules.decide.policy import Policy
from egress.rules.decide.verdicts import (
    allowed,
    denied,
    deny_readings,
    effects_denial,
    is_observing,
    observed,
    with_lifted,
)
from egress.types import Decision, Head


@dataclass(frozen=True, slots=True)
class BodyGate:
    """A request whose head fits rules on its body."""

    policy: Policy
    route: HostRoute
    plan: MethodPlan
    head: Head
    """With the canonical target."""
    now: int

    def decide(self, rules: Sequence[Rule], found: Facts | Unreadable | None) -> Decision | None:
        """Decide by rules on bodies; None where none of them is about the request.

        `rules` are the allow rules whose heads fit.
        """
        path, query = paths.split_target(self.head.target)
        readings = deny_readings(path)
        claims = tuple(self.route.claims.applying(readings, query, self.head))
        denies = tuple(self.plan.body_deny.applying(readings, query, self.head))
        if claims:
            # Neither a plain rule nor a grant opens a path on which some rule reads the body.
            rules = [rule for rule in rules if rule.predicates.body is not None]
        elif not denies:
            return None
        if rules or is_observing(self.policy, self.route.entry):
            # Observe mode records what a body says, and lets none pass that cannot be read.
            return self._read(rules, denies, found, claims)
        if not claims:
            return None
        code = "rule.websocket" if self.head.websocket else "rule.none"
        return denied(self.route, (code, None), self.head.target)

    def _read(
        self,
        rules: Sequence[Rule],
        denies: Sequence[Rule],
        found: Facts | Unreadable | None,
        claims: Sequence[Rule],
    ) -> Decision:
        asking = (*rules, *denies) or claims
        if not any(rule.predicates.body for rule in asking):
            return observed(self.policy, self.route, self.head.target)
        kind = body_kind(asking)
        if kind is None:
            # A body cannot be two languages, so no verdict would be safe.
            return denied(self.route, ("body.ambiguous", None), self.head.target)
        # What was read once is judged as it is: the head of a request in the log is not whole.
        found = refused_head(kind, self.head) if found is None else found
        if found is None:
            asked = denied(self.route, ("body.unread", None), self.head.target)
            effects = self.route.effects((), self.policy.limit)
            return replace(asked, effects=effects, inspects=kind.name, body_kind=kind.name)
        decision = replace(self._judged(judge_body(rules, denies, found)), body_kind=kind.name)
        if not decision.allowed or is_observing(self.policy, self.route.entry):
            return decision
        bodies = ([rule.predicates.body for rule in each] for each in (rules, denies))
        return replace(decision, terms=decision.terms or answer_terms(*bodies))

    def _judged(self, judged: BodyJudgement) -> Decision:
        policy, route, target = self.policy, self.route, self.head.target
        if judged.denied_by is not None:
            decision = denied(route, ("rule.denied", judged.denied_by), target)
            return replace(decision, item=judged.item, item_codes=judged.item_codes)
        if judged.rules:
            effects = route.effects(judged.rules, policy.limit)
            denial = effects_denial(policy, route, effects, self.head, self.now)
            if denial is not None:
                return denied(route, denial, target)
            decision = with_lifted(allowed(route, judged.rules, effects, target), self.plan, self.head)
            return replace(decision, terms=llm_terms([rule.predicates.body for rule in judged.rules]))
        # Observe mode lifts that no rule allows, never that nobody knows what would be sent.
        if is_observing(policy, route.entry) and not judged.is_unreadable:
            return observed(policy, route, target)
        decision = denied(route, (judged.code, None), target)
        return replace(decision, item=judged.item, item_codes=judged.item_codes)


@dataclass(frozen=True, slots=True)
class BodyJudgement:
    """What the rules say to the facts of a body."""

    rules: tuple[Rule, ...] = ()
    """The rules that cover the facts; none if the request is not allowed."""
    denied_by: Rule | None = None
    code: str = ""
    """The code of a denial that no deny rule made."""
    item: str = ""
    """The first item that no rule covers, or that the deny is about; printable."""
    item_codes: tuple[str, ...] = ()
    """A code for each item of the facts, in their order; empty for one that is not refused by itself."""
    is_unreadable: bool = False


def body_kind(rules: Sequence[Rule]) -> BodyKind | None:
    """Return the kind of body that these rules are about; None where they are about several."""
    names = {each.kind for rule in rules if (each := rule.predicates.body) is not None}
    return KINDS.get(names.pop()) if len(names) == 1 else None


def refused_head(kind: BodyKind, head: Head) -> Unreadable | None:
    """Return why a body is not read at all."""
    if head.websocket:
        # Its frames may say anything, whatever a URL says beside them.
        return Unreadable("rule.websocket", "no rule reads what a WebSocket says")
    if head.method not in kind.methods:
        # A rule without methods cannot be about others.
        return Unreadable("body.type", "the method is not one of this kind")
    return head_refusal(kind, head)


def judge_body(rules: Sequence[Rule], denies: Sequence[Rule], found: Facts | Unreadable) -> BodyJudgement:
    """Judge what a body says by the allow and the deny rules whose heads fit the request."""
    if isinstance(found, Unreadable):
        return BodyJudgement(code=found.code, is_unreadable=True)
    items = [each for item in found.items for each in _expanded(item, rules)]
    for rule in denies:
        body = rule.predicates.body
        seen = None if body is None else next((item for item in items if body.denies(item)), None)
        if body is not None and seen is not None:
            codes = tuple(
                "rule.denied" if any(body.denies(each) for each in _expanded(item, rules)) else ""
                for item in found.items
            )
            return BodyJudgement(denied_by=rule, item=fact_text(str(seen)), item_codes=codes)
    covering: dict[int, Rule] = {}
    for item in items:
        fits = [rule for rule in rules if _misses(rule, item) is None]
        if not fits:
            codes = tuple(_code_of(rules, each) for each in found.items)
            reason = _reason(rules, item)
            shown = fact_text(f"{item}{reason.about}")
            return BodyJudgement(code=reason.code, item=shown, item_codes=codes)
        covering |= {id(rule): rule for rule in fits}
    # In file order: the first rule is the one that is reported.
    used = tuple(rule for rule in rules if not items or id(rule) in covering)
    return BodyJudgement(used) if used else BodyJudgement(code="rule.none")


def body_misses(predicate: BodyPredicate, found: Facts | Unreadable) -> str:
    """Return the first part of the predicate that the facts do not meet; empty if all are met."""
    if isinstance(found, Unreadable):
        return found.detail or "the body cannot be read"
    for item in found.items:
        # Different items may be covered by different rules; the first that this one does not cover is told.
        for each in predicate.expanded(item) or (item,):
            if (miss := predicate.misses(each)) is not None:
                return miss.text
    return ""


def _expanded(item: object, rules: Sequence[Rule]) -> Iterator[object]:
    """Yield the items that stand behind one, as all rules together know them."""
    bodies = (rule.predicates.body for rule in rules)
    known = [each for body in bodies if body is not None and (each := body.expanded(item)) is not None]
    yield from dict.fromkeys(each for items in known for each in items) if known else (item,)


def _misses(rule: Rule, item: object) -> BodyMiss | None:
    body = rule.predicates.body
    return None if body is None else body.misses(item)


def _code_of(rules: Sequence[Rule], item: object) -> str:
    """Return the code with which no rule covers an item; empty where one does."""
    for each in _expanded(item, rules):
        if all(_misses(rule, each) is not None for rule in rules):
            return _reason(rules, each).code
    return ""


def _reason(rules: Sequence[Rule], item: object) -> BodyMiss:
    reasons = [miss for rule in rules if (miss := _misses(rule, item)) is not None]
    # The rule that comes closest says what is missing.
    return max(reasons, key=lambda miss: miss.nearness) if reasons else BodyMiss("rule.none", "")
