"""Grants as a proxy makes them, for tests about rules: judged by the delegations of the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from egress.rules.compile.grants import covering, request_terms
from egress.rules.decide.overlay import Grant, GrantTerms, Overlay
from egress.rules.decide.policy import Policy
from egress.types import Identity
from tests.unit.rules.rule_samples import NOW

BOX = Identity("box")
TTL = 600


def granted(
    rules: Policy,
    kind: Literal["allow", "deny"],
    host: str,
    port: int = 443,
    methods: Sequence[str] | None = None,
    paths: Sequence[str] | None = None,
) -> Policy:
    """The policy with one more grant for the sandbox of every test. Raises `UsageError` as the proxy does."""
    return with_terms(rules, request_terms(kind, TTL, host, port, methods, paths))


def with_profile(rules: Policy, name: str, identity: Identity = BOX) -> Policy:
    """The policy with a profile chosen for the sandbox."""
    return with_terms(rules, GrantTerms("profile", TTL, profile=name), identity)


def with_terms(rules: Policy, terms: GrantTerms, identity: Identity = BOX) -> Policy:
    before = rules.overlays.get(identity.sandbox, Overlay(identity, ())).grants
    by = covering(rules, identity, terms)
    made = Grant(f"g-{len(before)}", terms, NOW + terms.ttl, by.id, by.place)
    return replace(rules, overlays={**rules.overlays, identity.sandbox: Overlay(identity, (*before, made))})
