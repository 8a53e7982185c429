"""What the log cannot tell: two readings of a policy, between which the true verdict lies.

Theory of operation. A line has no query, no headers and no body. So a rule that looks at them is read
twice. The hopeful reading takes every such allow as fitting and every such deny as not fitting; the
gloomy one the other way round. Where both come to the same verdict the log tells it. Where they differ
it cannot be told, and that is the answer.

All else of a rule stays, since what a route knows from its rules (whether they look at methods and at
paths) is strictness of its own.
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
    """The two readings; the same policy where nothing is in doubt."""

    hopeful: Policy
    gloomy: Policy

    @property
    def is_told(self) -> bool:
        """Whether no rule looks at anything that the log does not have."""
        return self.hopeful is self.gloomy


def read_both_ways(policy: Policy) -> PolicyReadings:
    """Read a policy in both ways."""
    rules = [*policy.deny]
    for entry in [*policy.entries.values(), *(item.entry for item in policy.networks)]:
        rules += [*entry.allow, *entry.deny]
    if not any(rule.predicates.looks_inside for rule in rules):
        return PolicyReadings(policy, policy)
    return PolicyReadings(_read(policy, hopeful=True), _read(policy, hopeful=False))


def _read(policy: Policy, *, hopeful: bool) -> Policy:
    return replace(
        policy,
        entries={pattern: _entry(entry, hopeful=hopeful) for pattern, entry in policy.entries.items()},
        networks=tuple(
            NetworkEntry(item.network, _entry(item.entry, hopeful=hopeful)) for item in policy.networks
        ),
        deny=tuple(_rule(rule, fits=not hopeful) for rule in policy.deny),
        routes={},
        shared_routes={},
    )


def _entry(entry: Entry, *, hopeful: bool) -> Entry:
    return replace(
        entry,
        allow=tuple(_rule(rule, fits=hopeful) for rule in entry.allow),
        deny=tuple(_rule(rule, fits=not hopeful) for rule in entry.deny),
    )


def _rule(rule: Rule, *, fits: bool) -> Rule:
    predicates = rule.predicates
    if not predicates.looks_inside:
        return rule
    # The header is in no request, so asking for it settles the question, and the rest stays as it is.
    settled = replace(predicates, query=(), headers=_FITS if fits else _FAILS, content_types=())
    return replace(rule, predicates=settled)
