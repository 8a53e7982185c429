"""Parts of the current rules that a draft inherits because the log does not hold them.

A log line names a secret and its slot. The source of the value, its bindings and its format are only in the
rules. The same holds for denies and for response handling: a draft without them would allow more than before.
Without current rules the draft proposes each secret: bound to the hosts that received it, with an environment
variable that is not set yet, so that no request leaves without its credential.
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
    """A part of a rule file, with a comment on its origin."""

    fields: Fields
    remark: str


class InheritedRules:
    """Lookups in the current rules; without rules they find nothing."""

    def __init__(self, policy: Policy | None) -> None:
        self._policy = policy

    def is_bound(self, secret: str, host: str, ports: frozenset[int]) -> bool:
        """True if a secret may go to a host: by its binding, or because no binding is known."""
        spec = self._policy.secrets.get(secret) if self._policy else None
        if spec is None:
            # An undeclared name comes from the log: only a valid name may become a proposal.
            return _NAME.fullmatch(secret) is not None
        return all(spec.is_bound_to(host, port) for port in ports)

    def knows(self, secret: str) -> bool:
        """True if the current rules declare the secret."""
        return self._policy is not None and secret in self._policy.secrets

    def secret(self, name: str, places: list[str]) -> InheritedPart:
        """Return the declaration of a secret."""
        spec = self._policy.secrets.get(name) if self._policy else None
        if spec is not None:
            return InheritedPart(secret_fields(spec), f"as in {spec.place}")
        variable = name.upper().replace("-", "_")
        hosts: list[Json] = list(places)
        return InheritedPart(
            {"from": f"env:{variable}", "hosts": hosts},
            "a guess: no current rule names its source; bound to the hosts that received it",
        )

    def injection(self, host: str, secret: str, slot: str) -> InheritedPart | None:
        """Return the injection of a secret into a slot; None if unknown."""
        for item in self._items(host):
            injection = item.injection
            if injection.secret == secret and slot in [str(place) for place in injection.slots]:
                # `for` names rules of the current file. The draft has rules of its own and sets it anew.
                fields = {name: value for name, value in inject_fields(item).items() if name != "for"}
                return InheritedPart(fields, f"as in {item.place}")
        return _guessed(secret, slot)

    def _items(self, host: str) -> list[ScopedInjection]:
        if self._policy is None:
            return []
        return [item for entry in matching_entries(self._policy, host) for item in entry.inject]

    def denies(self, host: str) -> list[Rule]:
        """Return the denies of every entry that matches the host."""
        if self._policy is None:
            return []
        return [rule for entry in matching_entries(self._policy, host) for rule in entry.deny]

    def canaries(self) -> list[CanarySpec]:
        """Return the canaries: a planted value must stay denied under every rule file."""
        return list(self._policy.canaries) if self._policy else []

    def top_denies(self) -> list[Rule]:
        """Return the top-level denies."""
        return list(self._policy.deny) if self._policy else []

    def handling(self, host: str) -> InheritedPart | None:
        """Return response handling and limits of the entry that decides for the host."""
        entry = self._entry(host)
        fields = handling_fields(entry.handling) if entry else {}
        if entry is None or not fields:
            return None
        return InheritedPart(fields, f"as in {entry.place}")

    def _entry(self, host: str) -> Entry | None:
        """Return the entry that decides for a host. Other matching entries only add denies."""
        entries = matching_entries(self._policy, host) if self._policy else []
        return entries[0] if entries else None

    def limits(self) -> InheritedPart | None:
        """Return the limits over all hosts."""
        limit = self._policy.limit if self._policy else None
        return InheritedPart(limit_fields(limit), f"as in {limit.place}") if limit else None

    def profiles(self) -> list[str]:
        """Return the names of the profiles. A draft has none."""
        return sorted(self._policy.profiles or ()) if self._policy else []

    def lost(self, host: str) -> Iterator[str]:
        """Describe the settings of a host that the draft does not inherit."""
        entry = self._entry(host)
        if entry is None:
            return
        if entry.expires is not None or any(rule.expires is not None for rule in entry.allow):
            yield f"the entry at {entry.place} expires, and this one does not"
        if entry.handling.limit and entry.key != host:
            yield f"the limits at {entry.place} are shared by all its hosts; here each host has its own"
        # The rules of a draft are new, so settings of a single current rule have no rule to go to.
        names = sorted(rule.ref.id for rule in entry.allow if rule.handling != Handling())
        if names:
            settings = "limits and response handling"
            yield f"{settings} of single rules are not inherited: {', '.join(names)} at {entry.place}"


def deny_fields(rule: Rule, taken: set[str]) -> Fields:
    """Return the fields of a deny, with a free id."""
    fields = rule_fields(rule)
    name, number = rule.ref.id, 2
    while name in taken:
        name, number = f"{rule.ref.id}-{number}", number + 1
    taken.add(name)
    return {**fields, "id": name}


def _guessed(secret: str, slot: str) -> InheritedPart | None:
    kind, _, name = slot.partition(":")
    remark = "a guess from the slot: no current rule gives its format"
    if slot == "header:authorization":
        return InheritedPart({"bearer": secret}, remark)
    # The slot comes from the log too, so an invalid name gets no injection.
    if kind == "header" and _HEADER.fullmatch(name) and name != "host":
        return InheritedPart({"header": {"name": name, "secret": secret}}, remark)
    if kind in ("query", "cookie") and _PARAMETER.fullmatch(name):
        return InheritedPart({kind: {"name": name, "secret": secret}}, remark)
    return None
