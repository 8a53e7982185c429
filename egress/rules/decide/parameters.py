"""Parameters of the rules: their declarations, and the values of one sandbox.

A sandbox brings values with its identity. They are checked against the policy in force, once for each set of
values: a value that does not fit, or that the rules do not declare, denies the sandbox everything. Where it
brings none, a parameter has its default; without a default, no rule that needs the parameter matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from egress.rules.decide.host_route import HostRoute
from egress.rules.decide.policy import Policy
from egress.rules.language.value_pattern import value_fault
from egress.types import Identity, Parameters

MAX_CACHED_SETS: Final = 4096


def parameter_fault(policy: Policy, given: Parameters) -> str:
    """Return why these values are refused; empty if they are not. No text quotes a value."""
    for name, value in given:
        spec = policy.parameters.get(name)
        if spec is None:
            return f"the rules declare no parameter {name}"
        if fault := value_fault(value):
            return f"the parameter {name} cannot have this value: {fault}"
        if not spec.pattern.matches(value):
            return f"the value of the parameter {name} does not fit its pattern"
    return ""


def is_refused(policy: Policy, identity: Identity) -> bool:
    """Report whether a value of this sandbox denies it everything."""
    return bool(identity.parameters) and _values(policy, identity.parameters) is None


def filled_route(policy: Policy, identity: Identity, route: HostRoute) -> HostRoute:
    """Return the route with the rules that the values of this sandbox make of those with placeholders."""
    values = _values(policy, identity.parameters) or {}
    # Sandboxes with the same values in the rules of this host share a route.
    key = (route, tuple((name, values.get(name)) for name in route.parameters))
    known = policy.filled_routes.get(key)
    if known is None:
        # Bounded: a full cache is dropped as a whole, and made anew by the requests that come.
        if len(policy.filled_routes) >= MAX_CACHED_SETS:
            policy.filled_routes.clear()
        known = policy.filled_routes[key] = _filled(route, values)
    return known


def _filled(route: HostRoute, values: Mapping[str, str]) -> HostRoute:
    entry = route.entry
    if entry is None:
        return route
    allow = []
    for rule in entry.allow:
        if rule.template is None:
            allow.append(rule)
        elif (predicates := rule.template.filled(values)) is not None:
            allow.append(replace(rule, predicates=predicates, template=None))
    return HostRoute(replace(entry, allow=tuple(allow)), route.deny, route.lifted, claims=route.claims)


def _values(policy: Policy, given: Parameters) -> Mapping[str, str] | None:
    """Return every value of a sandbox, defaults included; None if one is refused."""
    if given in policy.parameter_values:
        return policy.parameter_values[given]
    values: Mapping[str, str] | None = None
    if not parameter_fault(policy, given):
        specs = policy.parameters.values()
        values = {spec.name: spec.default for spec in specs if spec.default is not None} | dict(given)
    if len(policy.parameter_values) >= MAX_CACHED_SETS:
        policy.parameter_values.clear()
    policy.parameter_values[given] = values
    return values
