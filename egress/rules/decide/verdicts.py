"""The values of decisions, and what every way to an allow asks last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egress.rules.decide import paths
from egress.rules.decide.entry import Entry, Rule
from egress.rules.decide.host_route import HostRoute, MethodPlan
from egress.rules.decide.policy import Policy
from egress.types import Decision, Effects, Head, Verdict

Denial = tuple[str, Rule | None]
"""A code, and the rule that denied if there is one."""


def is_observing(policy: Policy, entry: Entry | None) -> bool:
    """Report whether observe mode lifts a missing entry or rule; entries that inject are enforced."""
    if entry is None:
        return policy.mode == "observe"
    return not entry.inject and (entry.mode or policy.mode) == "observe"


def deny_readings(path: str) -> tuple[str, ...]:
    """Return the readings of a path on which denies are matched."""
    # A `*` in a pattern is a wildcard and `%2A` the character, so the path spells the character `%2A`.
    path = path.replace("*", "%2A")
    if "%" not in path:
        return (path,)
    loose = paths.loosened_path(path)
    return (loose, loose.replace("%2F", "/")) if "%2F" in loose else (loose,)


def effects_denial(policy: Policy, route: HostRoute, effects: Effects, head: Head, now: int) -> Denial | None:
    """Deny two handlers for a request, and a secret that is not bound to the destination or has expired.

    The binding is checked again on the concrete destination, although the loader has checked it.
    """
    if len(effects.handlers) > 1:
        return "handler.ambiguous", None
    for need in effects.needs:
        spec = policy.secrets.get(need.secret)
        if spec is None or head.scheme != "https":
            return "secret.unbound", None
        # A route is that of one host under one policy, so its bindings do not change.
        is_bound = route.bound.get((spec.name, head.port))
        if is_bound is None:
            is_bound = route.bound[spec.name, head.port] = spec.is_bound_to(head.host, head.port)
        if not is_bound:
            return "secret.unbound", None
        if spec.expires is not None and now >= spec.expires:
            return "secret.expired", None
    return None


def allowed(route: HostRoute, rules: Sequence[Rule], effects: Effects, target: str) -> Decision:
    """Return the decision of the rules that allow a request, the first of which is named."""
    entry = route.entry
    ref = rules[0].ref
    return Decision(
        Verdict.ALLOW, "rule.allowed", target, ref, entry.key if entry else None, ref.place, effects
    )


def with_lifted(decision: Decision, plan: MethodPlan, head: Head) -> Decision:
    """Name the deny that would have denied the request, had the file not lifted it."""
    if not plan.lifted.rules:
        return decision
    path, query = paths.split_target(decision.target)
    rule = plan.lifted.first(deny_readings(path), query, head)
    return decision if rule is None else replace(decision, lifted=rule.ref)


def observed(policy: Policy, route: HostRoute, target: str) -> Decision:
    """Return the decision of observe mode on a request that no rule allows."""
    entry = route.entry
    key, place = (entry.key, entry.place) if entry else (None, None)
    effects = route.effects((), policy.limit)
    return Decision(Verdict.ALLOW, "observed", target, None, key, place, effects, observed=True)


def denied(route: HostRoute, denial: Denial, target: str = "") -> Decision:
    """Return a denial, with the place of its rule or else of the entry."""
    code, rule = denial
    entry = route.entry
    key, place = (entry.key, entry.place) if entry else (None, None)
    if rule is not None:
        return Decision(Verdict.DENY, code, target, rule.ref, key, rule.ref.place)
    return Decision(Verdict.DENY, code, target, None, key, place)
