"""Two readings of a policy, lenient and strict, to find verdicts that the log cannot decide.

A log line has no query, no headers and no body, so a rule that checks them is read twice. In the lenient
reading every such allow matches and no such deny does; in the strict reading it is the other way round. If
both readings give the same verdict, the verdict is certain. If they differ, the log cannot decide it.

The other predicates of a rule stay: a route derives its path and method checks from them, and these checks
deny too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from egress.rules.decide.entry import Entry, NetworkEntry, Rule
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.policy import Policy
from egress.rules.decide.predicates import NamedGlob

_HEADER = "egress-never-sent"
_FITS = (NamedGlob(_HEADER, None),)
_FAILS = (NamedGlob(_HEADER, ValueGlob("there")),)


@dataclass(frozen=True, slots=True)
class PolicyReadings:
    """Both readings; the same object twice if no rule is ambiguous."""

    lenient: Policy
    strict: Policy

    @property
    def is_certain(self) -> bool:
        """True if every rule checks only logged fields."""
        return self.lenient is self.strict


def read_both_ways(policy: Policy) -> PolicyReadings:
    """Return the lenient and the strict reading of a policy."""
    rules = [*policy.deny]
    for entry in [*policy.entries.values(), *(item.entry for item in policy.networks)]:
        rules += [*entry.allow, *entry.deny]
    if not any(rule.predicates.looks_inside for rule in rules):
        return PolicyReadings(policy, policy)
    return PolicyReadings(_read(policy, lenient=True), _read(policy, lenient=False))


def _read(policy: Policy, *, lenient: bool) -> Policy:
    return replace(
        policy,
        entries={pattern: _entry(entry, lenient=lenient) for pattern, entry in policy.entries.items()},
        networks=tuple(
            NetworkEntry(item.network, _entry(item.entry, lenient=lenient)) for item in policy.networks
        ),
        deny=tuple(_rule(rule, fits=not lenient) for rule in policy.deny),
        routes={},
        shared_routes={},
    )


def _entry(entry: Entry, *, lenient: bool) -> Entry:
    return replace(
        entry,
        allow=tuple(_rule(rule, fits=lenient) for rule in entry.allow),
        deny=tuple(_rule(rule, fits=not lenient) for rule in entry.deny),
    )


def _rule(rule: Rule, *, fits: bool) -> Rule:
    predicates = rule.predicates
    if not predicates.looks_inside:
        return rule
    # No request has this header, so requiring or forbidding it settles the rule without changing the rest.
    settled = replace(predicates, query=(), headers=_FITS if fits else _FAILS, content_types=())
    return replace(rule, predicates=settled)
