"""Lint delegations: find those that delegate less than they seem to, or more than was meant."""

from __future__ import annotations

from collections.abc import Iterator

from egress.rules.compile.public_suffixes import is_over_public_suffix
from egress.rules.decide.entry import Entry
from egress.rules.decide.overlay import Delegation
from egress.rules.decide.policy import Policy
from egress.rules.language.hosts import HostPattern, candidate_patterns
from egress.rules.language.report import Report, quoted


def lint_delegations(policy: Policy, report: Report) -> None:
    """Warn about hosts of delegations on which a grant has no effect, and tell of those with a credential."""
    for delegation in policy.delegations:
        for pattern in delegation.hosts:
            if "allow" in delegation.kinds and is_over_public_suffix(pattern):
                report.warning(
                    delegation.place,
                    f"{quoted(delegation.id)} delegates {quoted(pattern)}, where anybody can register names",
                    "name the hosts, or a suffix you own",
                )
            for entry in _entries_of(policy, pattern):
                _compare(delegation, entry, report)


def _compare(delegation: Delegation, entry: Entry, report: Report) -> None:
    if "allow" not in delegation.kinds:
        return
    key, name = quoted(entry.key), quoted(delegation.id)
    # What can allow nothing comes first: the notice about a credential is for what takes effect.
    if not entry.intercept:
        report.warning(
            delegation.place,
            f"{name} can allow nothing on {key}: `intercept: never` reads nothing",
            "intercept the host, or write `may: [deny]`, by which a grant closes the host",
        )
    elif not entry.allow:
        report.warning(
            delegation.place,
            f"{name} can allow nothing on {key}: `allow: []` closes the host, and no grant opens it",
            "give the host an allow rule, or write `may: [deny]`",
        )
    elif delegation.ports.isdisjoint(entry.ports):
        report.warning(
            delegation.place,
            f"{name} can allow nothing on {key}: the host has other ports",
            "a grant opens no port of a host that the rules know: add it to `ports` of the host",
        )
    elif entry.inject:
        report.notice(
            delegation.place,
            f"{name} can allow more requests on {key}, which gets a credential",
            "they are sent without it, and a credential of the sandbox's own is taken out of its slots",
        )


def _entries_of(policy: Policy, pattern: HostPattern) -> Iterator[Entry]:
    """Yield the entries that are chosen for hosts of the pattern."""
    below = [entry for entry in policy.entries.values() if entry.pattern and pattern.covers(entry.pattern)]
    yield from below
    # A host without an entry of its own has that of the longest suffix.
    sample = f"x.{pattern.suffix}" if pattern.stars else pattern.suffix
    above = (policy.entries.get(candidate) for candidate in candidate_patterns(sample))
    chosen = next((entry for entry in above if entry is not None), None)
    if chosen is not None and chosen not in below:
        yield chosen
