"""What a draft takes over from the rules at hand: what no line of a log holds.

A line names a secret and the slot it went into. Where its value comes from, which hosts it is bound to
and how it is written stand in rules alone. So do denies and how answers are treated: a draft that
dropped them would allow more than was allowed before. Without rules, secrets become proposals: bound to
the hosts where they were seen, and from a variable that has yet to be set, so that nothing goes out bare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from egress.rules.compile.policy_writer import (
    Fields,
    Json,
    handling_fields,
    inject_fields,
    limit_fields,
    rule_fields,
    secret_fields,
)
from egress.rules.decide.decision import matching_entries
from egress.rules.decide.entry import Entry, Handling, Rule, ScopedInjection
from egress.rules.decide.policy import CanarySpec, Policy

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,64}")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class InheritedPart:
    """A part of a rule file, and a remark on where it is from."""

    fields: Fields
    remark: str


class InheritedRules:
    """Looks things up in the rules at hand, which may be none."""

    def __init__(self, policy: Policy | None) -> None:
        self._policy = policy

    def is_bound(self, secret: str, host: str, ports: frozenset[int]) -> bool:
        """Whether a secret may go there: by its binding, or because it has none that we know."""
        spec = self._policy.secrets.get(secret) if self._policy else None
        if spec is None:
            return _NAME.fullmatch(secret) is not None
        return all(spec.is_bound_to(host, port) for port in ports)

    def knows(self, secret: str) -> bool:
        """Whether the rules at hand declare a secret."""
        return self._policy is not None and secret in self._policy.secrets

    def secret(self, name: str, places: list[str]) -> InheritedPart:
        """How a secret is declared."""
        spec = self._policy.secrets.get(name) if self._policy else None
        if spec is not None:
            return InheritedPart(secret_fields(spec), f"as in {spec.place}")
        variable = name.upper().replace("-", "_")
        hosts: list[Json] = list(places)
        return InheritedPart(
            {"from": f"env:{variable}", "hosts": hosts},
            "a guess: no rules at hand say where it comes from; bound to the hosts where it was seen",
        )

    def injection(self, host: str, secret: str, slot: str) -> InheritedPart | None:
        """How a secret gets into a slot; None when that cannot be told."""
        for item in self._items(host):
            injection = item.injection
            if injection.secret == secret and slot in [str(place) for place in injection.slots]:
                fields = {name: value for name, value in inject_fields(item).items() if name != "for"}
                return InheritedPart(fields, f"as in {item.place}")
        return _guessed(secret, slot)

    def _items(self, host: str) -> list[ScopedInjection]:
        if self._policy is None:
            return []
        return [item for entry in matching_entries(self._policy, host) for item in entry.inject]

    def denies(self, host: str) -> list[Rule]:
        """The denies of every entry that names the host."""
        if self._policy is None:
            return []
        return [rule for entry in matching_entries(self._policy, host) for rule in entry.deny]

    def canaries(self) -> list[CanarySpec]:
        """The values that are planted: they stay so under other rules."""
        return list(self._policy.canaries) if self._policy else []

    def top_denies(self) -> list[Rule]:
        """The denies that are written beside `hosts`."""
        return list(self._policy.deny) if self._policy else []

    def handling(self, host: str) -> InheritedPart | None:
        """How answers are treated and what bounds hold, by the entry that decides for the host."""
        entry = self._entry(host)
        fields = handling_fields(entry.handling) if entry else {}
        if entry is None or not fields:
            return None
        return InheritedPart(fields, f"as in {entry.place}")

    def _entry(self, host: str) -> Entry | None:
        """The entry that decides for a host; others that name it add denies alone."""
        entries = matching_entries(self._policy, host) if self._policy else []
        return entries[0] if entries else None

    def limits(self) -> InheritedPart | None:
        """What bounds hold over all hosts."""
        limit = self._policy.limit if self._policy else None
        return InheritedPart(limit_fields(limit), f"as in {limit.place}") if limit else None

    def profiles(self) -> list[str]:
        """The names of the profiles, which no draft has."""
        return sorted(self._policy.profiles or ()) if self._policy else []

    def lost(self, host: str) -> Iterator[str]:
        """What holds for a host and is not taken over, in words."""
        entry = self._entry(host)
        if entry is None:
            return
        if entry.expires is not None or any(rule.expires is not None for rule in entry.allow):
            yield f"the entry at {entry.place} has an end (`expires`), and here is none"
        if entry.handling.limit and entry.key != host:
            yield f"bounds at {entry.place} are for all of its hosts together, and here for each alone"
        names = sorted(rule.ref.id for rule in entry.allow if rule.handling != Handling())
        if names:
            what = "bounds, or of how answers are treated"
            yield f"what {', '.join(names)} at {entry.place} say of {what}, is not taken over"


def deny_fields(rule: Rule, taken: set[str]) -> Fields:
    """A deny as it is written, with an id that is not taken."""
    fields = rule_fields(rule)
    name, number = rule.ref.id, 2
    while name in taken:
        name, number = f"{rule.ref.id}-{number}", number + 1
    taken.add(name)
    return {**fields, "id": name}


def _guessed(secret: str, slot: str) -> InheritedPart | None:
    kind, _, name = slot.partition(":")
    remark = "a guess from the slot: no rules at hand say how it is written"
    if slot == "header:authorization":
        return InheritedPart({"bearer": secret}, remark)
    if kind == "header" and _HEADER.fullmatch(name) and name != "host":
        return InheritedPart({"header": {"name": name, "secret": secret}}, remark)
    if kind in ("query", "cookie") and _PARAMETER.fullmatch(name):
        return InheritedPart({kind: {"name": name, "secret": secret}}, remark)
    return None
