"""Plain rules beside a budget: those that open calls that it cannot see are refused."""

from __future__ import annotations

import re
from typing import Final

import pytest

from egress.policy.bundled_presets import preset_texts
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import as_text
from egress.types import Finding

LLM = {
    "anthropic": 'llm: { api: anthropic, models: ["*"], max_output: 5, budget: agents }',
    "openai": 'llm: { api: openai-chat, models: ["*"], max_output: 5, budget: agents }',
    "gemini": 'llm: { api: gemini, models: ["*"], max_output: 5, budget: agents }',
    "bedrock": 'llm: { api: bedrock-converse, models: ["*"], max_output: 5, budget: agents }',
    "free": 'llm: { api: anthropic, models: ["*"] }',
}


def findings(
    llm: str, *rules: str, deny: str = "", use: str = "", host: str = "api.example.test"
) -> list[Finding]:
    lines = [f"{{ id: calls, {LLM[llm]} }}", *rules]
    allow = "".join(f"      - {line}\n" for line in lines)
    budgets = "budgets: { agents: { tokens: 5/hour } }"
    denies = f"    deny: [{deny}]\n" if deny else ""
    text = f"version: 1\n{use}{budgets}\nhosts:\n  {host}:\n    allow:\n{allow}{denies}"
    return list(load([RuleText("f.yaml", text)], preset_texts()).findings)


def messages(llm: str, *rules: str, deny: str = "") -> list[str]:
    return [finding.message for finding in findings(llm, *rules, deny=deny)]


@pytest.mark.parametrize(
    ("llm", "rule", "path"),
    [
        ("anthropic", '{ id: r, paths: ["/**"] }', "/v1/messages/batches"),
        ("anthropic", '{ id: r, methods: [POST], paths: ["/v1/messages/*"] }', "/v1/messages/batches"),
        ("openai", '{ id: r, paths: ["/v1/**"] }', "/v1/responses"),
        ("openai", '{ id: r, methods: [POST], paths: ["/v1/images/*"] }', "/v1/images/generations"),
        ("gemini", '{ id: r, paths: ["/v1beta/**"] }', "/v1beta/models/model:batchGenerateContent"),
        ("bedrock", '{ id: r, paths: ["/model/*/invoke"] }', "/model/model/invoke"),
        (
            "bedrock",
            '{ id: r, paths: ["/model/*/invoke-with-response-stream"] }',
            "/model/model/invoke-with-response-stream",
        ),
        ("openai", '{ id: r, methods: [POST], paths: ["/v1/threads/**"] }', "/v1/threads/runs"),
        (
            "anthropic",
            '{ id: r, methods: [POST], paths: ["/v1/chat/completions"] }',
            "/v1/chat/completions",
        ),
        (
            "gemini",
            '{ id: r, methods: [POST], paths: ["/v1beta/openai/**"] }',
            "/v1beta/openai/chat/completions",
        ),
    ],
)
def test_a_rule_around_the_budget_is_refused(llm: str, rule: str, path: str) -> None:
    (found,) = messages(llm, rule)
    assert found == f"api.example.test#r allows POST {path}, whose cost no budget of this host sees"
    assert messages(llm, rule.replace(" }", ", unmetered: true }")) == []


@pytest.mark.parametrize(
    ("llm", "rule"),
    [
        ("anthropic", '{ id: r, methods: [POST], paths: ["/v1/messages/count_tokens"] }'),
        ("anthropic", '{ id: r, methods: [GET], paths: ["/**"] }'),
        ("openai", '{ id: r, methods: [POST], paths: ["/v1/files"] }'),
        ("free", '{ id: r, paths: ["/**"] }'),
    ],
)
def test_other_rules_stand_beside_it(llm: str, rule: str) -> None:
    assert messages(llm, rule) == []


def unseen(llm: str, *rules: str, deny: str = "") -> list[str]:
    return [each for each in messages(llm, *rules, deny=deny) if each.endswith("no budget of this host sees")]


WIDE: Final = '{ id: r, methods: [POST], paths: ["/v1/completions"] }'


@pytest.mark.parametrize(
    ("llm", "rule", "deny"),
    [
        ("openai", WIDE, "{ id: d, paths: [/v1/completions] }"),
        ("openai", WIDE, "{ id: d, methods: [POST], paths: [/v1/**] }"),
        ("openai", WIDE, "{ id: d, methods: [POST] }"),
        ("bedrock", '{ id: r, paths: ["/model/*/invoke"] }', "{ id: d, paths: [/model/**] }"),
    ],
)
def test_a_deny_closes_the_call(llm: str, rule: str, deny: str) -> None:
    assert unseen(llm, rule)
    assert unseen(llm, rule, deny=deny) == []


@pytest.mark.parametrize(
    ("llm", "rule", "deny"),
    [
        ("openai", WIDE, "{ id: d, methods: [PUT], paths: [/v1/completions] }"),
        ("openai", WIDE, "{ id: d, paths: [/v1/completion] }"),
        ("openai", WIDE, "{ id: d, paths: [/v1/completions], websocket: true }"),
        ("openai", WIDE, "{ id: d, paths: [/v1/completions], headers: { x-team: blue } }"),
        ("openai", WIDE, '{ id: d, llm: { api: openai-chat, models: ["x"] } }'),
        ("bedrock", '{ id: r, paths: ["/model/*/invoke"] }', "{ id: d, paths: [/model/model/invoke] }"),
    ],
)
def test_a_deny_of_something_else_does_not(llm: str, rule: str, deny: str) -> None:
    assert unseen(llm, rule, deny=deny)


def test_the_cure_for_a_preset_works() -> None:
    place = {"use": "use: [openai]\n", "host": "api.openai.com"}
    (found,) = findings("openai", **place)
    deny = re.fullmatch(r".*`deny: \[(.*)\]`", found.hint)
    assert deny is not None
    assert found.message.startswith("api.openai.com#openai-generate allows POST /v1/responses,")
    assert findings("openai", **place, deny=deny[1]) == []


def test_the_word_is_written_back() -> None:
    text = "version: 1\nhosts:\n  a.test:\n    allow: [{ id: r, methods: [POST], unmetered: true }]\n"
    policy = load([RuleText("f.yaml", text)]).policy
    assert policy is not None
    assert "unmetered: true" in as_text(policy)
