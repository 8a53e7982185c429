"""Line 42 of docs/reference/language.md: changes for single sandboxes, within what the rules delegate."""

from __future__ import annotations

import pytest

from egress.errors import UsageError
from tests.unit.rules.grant_samples import granted
from tests.unit.rules.rule_samples import ask, decision_text, errors, policy

RULES = """
    secrets: {token: {from: "env:TOKEN", hosts: [a.example.com]}}
    hosts:
      a.example.com: {allow: [{id: read, methods: [GET]}], inject: [{bearer: token}]}
      b.example.com: {allow: []}
      c.example.com: {intercept: never}
    delegate:
      - id: some
        to: {sandboxes: ["b*"]}
        ttl: 1h
        hosts: ["*.example.com"]
        methods: [GET, PUT]
        paths: [/x/**]
      - {id: stop, to: {sandboxes: [box]}, ttl: 1d, hosts: ["**.com"], may: [deny]}
"""


@pytest.mark.parametrize(
    ("host", "methods", "paths"),
    [
        ("a.example.com", ["PUT"], ["/x/**"]),
        ("*.example.com", ["GET", "PUT"], ["/x", "/x/*/y"]),
        ("new.example.com", ["GET"], ["/x/**/y"]),
    ],
)
def test_42_a_grant_within_one_delegation_is_made(host: str, methods: list[str], paths: list[str]) -> None:
    assert granted(policy(RULES), "allow", host, methods=methods, paths=paths).overlays["box"].grants


@pytest.mark.parametrize(
    ("host", "methods", "paths"),
    [
        ("example.com", ["PUT"], ["/x/**"]),
        ("a.b.example.com", ["PUT"], ["/x/**"]),
        ("**.example.com", ["PUT"], ["/x/**"]),
        ("a.example.com", ["PUT", "POST"], ["/x/**"]),
        ("a.example.com", None, ["/x/**"]),
        ("a.example.com", ["PUT"], ["/x/**", "/y"]),
        ("a.example.com", ["PUT"], ["/*/y"]),
        ("a.example.com", ["PUT"], None),
        ("a.example.com", ["put"], ["/x/**"]),
    ],
)
def test_42_a_grant_beyond_each_delegation_is_refused(
    host: str, methods: list[str] | None, paths: list[str] | None
) -> None:
    with pytest.raises(UsageError):
        granted(policy(RULES), "allow", host, methods=methods, paths=paths)


def test_42_a_granted_allow_comes_last_and_carries_nothing() -> None:
    rules = granted(policy(RULES), "allow", "*.example.com", methods=["GET", "PUT"], paths=["/x/**"])
    assert decision_text(rules, "GET https://a.example.com/x/1") == "allow read, inject token"
    assert decision_text(rules, "PUT https://a.example.com/x/1") == "allow g-0"
    assert decision_text(rules, "PUT https://a.example.com/y") == "deny rule.none"
    assert decision_text(rules, "GET https://new.example.com/x/1") == "allow g-0"
    assert decision_text(rules, "GET https://b.example.com/x/1") == "deny host.closed"
    assert [str(slot) for slot in ask(rules, "PUT https://a.example.com/x/1").effects.strips] == [
        "header:authorization"
    ]


def test_42_a_granted_deny_is_a_deny_of_every_entry() -> None:
    rules = granted(policy(RULES), "deny", "**.com", paths=["/x/**"])
    assert decision_text(rules, "GET https://a.example.com/X/1") == "deny g-0"
    assert decision_text(rules, "GET https://a.example.com/y") == "allow read, inject token"
    assert decision_text(rules, "GET https://c.example.com/") == "deny g-0"


def test_42_its_paths_count_for_the_strictness_of_the_host() -> None:
    plain = policy("""
        hosts: {a.example.com: {}}
        delegate: [{id: x, to: {sandboxes: [box]}, ttl: 1h, hosts: [a.example.com], may: [deny]}]
    """)
    assert decision_text(plain, "GET https://a.example.com//y") == "allow host"
    strict = granted(plain, "deny", "a.example.com", paths=["/x/**"])
    assert decision_text(strict, "GET https://a.example.com//y") == "deny path.ambiguous"


def test_42_an_id_is_unique_over_all_delegations() -> None:
    item = "{id: x, to: {sandboxes: [box]}, ttl: 60, hosts: [a.example.com]}"
    (found,) = errors(f"delegate: [{item}, {item}]")
    assert "duplicate id `x`" in found
