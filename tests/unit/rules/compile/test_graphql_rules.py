"""The key `graphql` of a rule: its mistakes are named at their line, and what is written comes back."""

from __future__ import annotations

import pytest

from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import rule_fields
from egress.rules.decide.entry import Rule

START = """
version: 1
hosts:
  api.example.test:
    allow:
      - {{id: a, paths: [/graphql], {}}}
"""


def findings(rule: str) -> list[str]:
    return [finding.message for finding in load([RuleText("hosts.yaml", START.format(rule))], {}, 0).findings]


def rule_of(rule: str) -> Rule:
    loaded = load([RuleText("hosts.yaml", START.format(rule))], {}, 0)
    assert loaded.policy is not None, loaded.findings
    (entry,) = loaded.policy.entries.values()
    return entry.allow[0]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("graphql: {}", "`graphql` needs an operation type"),
        ("graphql: {introspection: true}", "`graphql` needs an operation type"),
        ("graphql: {query: []}", "an empty list matches nothing"),
        ("graphql: {query: [a-b]}", "`a-b` is not the name of a root field"),
        ("graphql: {query: [__schema]}", "`__schema` cannot be listed"),
        ("graphql: {query: all}", "this must be a list or `any`, not `all`"),
        ("graphql: {query: any, batch: 0}", "this must be at least 1"),
        ("graphql: {query: any, no_fields: ['a*']}", "`a*` is not the name of a field"),
        ("graphql: {query: any, persisted: {abc: {query: [a]}}}", "this is not the digest of a document"),
        (f"graphql: {{query: any, persisted: {{'{'0' * 64}': {{}}}}}}", "a stored document has root fields"),
        ("graphql: {query: any}, websocket: true", "`websocket` cannot be combined with `graphql`"),
        ("graphql: {query: any}, methods: [PUT]", "`graphql` is not about PUT"),
        ("graphql: {queries: any}", "unknown key `queries`"),
        ("graphql: {query: any, scope: {}}", "the key `github` is missing"),
        ("graphql: {query: any, scope: {github: []}}", "this list must not be empty"),
        ("graphql: {query: any, scope: {github: [acme]}}", "`acme` is not the name of a repository"),
        ("graphql: {query: any, scope: {github: ['**']}}", "`**` is not the name of a repository"),
        ("graphql: {query: any, scope: {github: ['a/**']}}", "`a/**` is not the name of a repository"),
        ("graphql: {query: any, scope: {github: [a/b], ids: [a/b]}}", "`a/b` is not a name with an id"),
        ("graphql: {query: any, scope: {github: [a/b], ids: [a/b=R_x]}}", "an id is not spelled"),
        (
            "graphql: {query: any, scope: {github: [a/b], ids: [a/b=I_kwDOABPHjQE]}}",
            "`I_kwDOABPHjQE` is not the id of a repository",
        ),
        ("graphql: {query: any, scope_exempt: [search]}", "`scope_exempt` needs `scope`"),
        (
            "graphql: {query: any, scope: {github: [a/b]}, scope_exempt: ['*']}",
            "`*` is not the name of a field",
        ),
        (
            f"graphql: {{query: any, scope: {{github: [a/b]}}, persisted: {{'{'0' * 64}': {{query: [a]}}}}}}",
            "`persisted` cannot be combined with `scope`",
        ),
    ],
)
def test_a_mistake_is_named(rule: str, message: str) -> None:
    assert any(message in found for found in findings(rule)), findings(rule)


@pytest.mark.parametrize(
    "written",
    [
        {"query": ["viewer", "get*"]},
        {"query": "any", "mutation": ["addX"], "subscription": "any", "batch": 3},
        {"query": "any", "introspection": True, "get": True, "no_fields": ["relay"]},
        {"query": ["a"], "persisted": {"0" * 64: {"query": ["a"], "mutation": ["b", "c"]}}},
        {"query": "any", "scope": {"github": ["acme/app", "acme/doc-*"]}},
        {
            "query": "any",
            "scope": {"github": ["*/*"], "ids": ["acme/app=R_kgDOABPHjQ"]},
            "scope_exempt": ["search"],
        },
    ],
)
def test_a_predicate_is_written_back(written: dict[str, object]) -> None:
    shown = str(written).replace("True", "true").replace("'", '"')
    fields = rule_fields(rule_of(f"graphql: {shown}"))
    assert fields["graphql"] == written
    assert "methods" not in fields
