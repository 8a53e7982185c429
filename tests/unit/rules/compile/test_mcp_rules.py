"""The key `mcp` of a rule: its mistakes are named at their line, and what is written comes back."""

from __future__ import annotations

import pytest

from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import as_text, rule_fields
from egress.rules.decide.entry import Rule
from egress.rules.decide.policy import Policy

START = """
version: 1
hosts:
  mcp.example.test:
    {}:
      - {{id: a, paths: [/mcp], {}}}
"""


def findings(rule: str, key: str = "allow") -> list[str]:
    loaded = load([RuleText("hosts.yaml", START.format(key, rule))], {}, 0)
    return [finding.message for finding in loaded.findings]


def policy_of(rule: str) -> Policy:
    loaded = load([RuleText("hosts.yaml", START.format("allow", rule))], {}, 0)
    assert loaded.policy is not None, loaded.findings
    return loaded.policy


def rule_of(policy: Policy) -> Rule:
    (entry,) = policy.entries.values()
    return entry.allow[0]


def when(text: str) -> str:
    return f"mcp: {{tools: [{{name: a, when: {{{text}}}}}]}}"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("mcp: {tools: ['a b']}", "`a b` is not the name of a tool"),
        ("mcp: {tools: [{name: a/b}]}", "`a/b` is not the name of a tool"),
        ("mcp: {tools: [1]}", "this must be text or a mapping"),
        (when("'': a"), "`` does not lead to an argument"),
        (when("'*': a"), "`*` does not lead to an argument"),
        (when("'a//b': a"), "`a//b` does not lead to an argument"),
        (when("a: []"), "an empty list matches nothing"),
        (when("a: {}"), "write either `absent: true`, or `min`, `max` or both"),
        (when("a: {absent: true, min: 1}"), "write either `absent: true`, or `min`, `max` or both"),
        (when("a: {min: 2, max: 1}"), "`min` is larger than `max`"),
        (when("a: {most: 1}"), "unknown key `most`"),
        (when("a: [[b]]"), "this must be"),
        (when("a: null"), "the value is missing"),
        ("mcp: {resources: ['a**']}", "** must be a whole segment"),
        ("mcp: {resources: ['']}", "`` can never match"),
        ("mcp: {resources: ['x://a/../b']}", "`x://a/../b` can never match"),
        ("mcp: {prompts: ['']}", "a prompt has a name"),
        ("mcp: {methods: ['a b']}", "`a b` is not the name of a method"),
        ("mcp: {methods: [tools/call]}", "`tools/call` is not allowed as a whole"),
        ("mcp: {server_requests: ['']}", "`` is not the name of a method"),
        ("mcp: {list: hide}", "`hide`"),
        ("mcp: {}, graphql: {query: any}", "`mcp` cannot be combined with `graphql`"),
        ("mcp: {}, websocket: true", "`websocket` cannot be combined with `mcp`"),
        ("mcp: {}, methods: [PUT]", "`mcp` is not about PUT"),
    ],
)
def test_a_mistake_is_named(rule: str, message: str) -> None:
    assert any(message in found for found in findings(rule)), findings(rule)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("mcp: {}", "a deny of MCP names tools, resources, prompts or methods"),
        ("mcp: {tools: [{name: a}]}", "this must be"),
        ("mcp: {server_requests: [roots/list]}", "unknown key `server_requests`"),
    ],
)
def test_a_deny_names_plain_things(rule: str, message: str) -> None:
    assert any(message in found for found in findings(rule, "deny")), findings(rule, "deny")
    plain = findings("mcp: {tools: ['admin_*'], methods: [ping]}", "deny")
    assert plain == ["this entry has `deny` or `inject` but no `allow`"]


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"tools": ["a", "get_*"], "resources": ["repo://acme/**"], "prompts": ["x y"], "list": "pass"},
        {"methods": ["subscriptions/listen"], "server_requests": ["roots/list"]},
        {
            "tools": [
                {
                    "name": "a",
                    "when": {
                        "repo": ["acme/*", 1, True, 0.25],
                        "labels/*": ["bug"],
                        "n": {"min": 1, "max": 2.5},
                        "x": {"absent": True},
                    },
                    "only": True,
                },
                {"name": "b", "only": True},
            ]
        },
    ],
)
def test_a_rule_is_written_back(written: dict[str, object]) -> None:
    text = f"mcp: {written}".replace("'", '"').replace("True", "true")
    policy = policy_of(text)
    rule = rule_of(policy)
    assert rule_fields(rule)["mcp"] == written
    again = load([RuleText("again.yaml", as_text(policy))], {}, 0)
    assert again.policy is not None, again.findings
    assert rule_of(again.policy).predicates == rule.predicates


def test_a_single_value_is_a_list_of_one() -> None:
    one, many = (policy_of(when(text)) for text in ("a: b, c: true, d: 0.1", "a: [b], c: [true], d: [0.1]"))
    assert rule_of(one).predicates == rule_of(many).predicates
