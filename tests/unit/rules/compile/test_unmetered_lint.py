"""Plain rules beside a budget: those that open calls that it cannot see are refused."""

from __future__ import annotations

import pytest

from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import as_text

LLM = {
    "anthropic": 'llm: { api: anthropic, models: ["*"], max_output: 5, budget: agents }',
    "openai": 'llm: { api: openai-chat, models: ["*"], max_output: 5, budget: agents }',
    "gemini": 'llm: { api: gemini, models: ["*"], max_output: 5, budget: agents }',
    "bedrock": 'llm: { api: bedrock-converse, models: ["*"], max_output: 5, budget: agents }',
    "free": 'llm: { api: anthropic, models: ["*"] }',
}


def messages(llm: str, *rules: str) -> list[str]:
    lines = [f"{{ id: calls, {LLM[llm]} }}", *rules]
    allow = "".join(f"      - {line}\n" for line in lines)
    budgets = "budgets: { agents: { tokens: 5/hour } }"
    text = f"version: 1\n{budgets}\nhosts:\n  api.example.test:\n    allow:\n{allow}"
    return [finding.message for finding in load([RuleText("f.yaml", text)]).findings]


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


def test_the_word_is_written_back() -> None:
    text = "version: 1\nhosts:\n  a.test:\n    allow: [{ id: r, methods: [POST], unmetered: true }]\n"
    policy = load([RuleText("f.yaml", text)]).policy
    assert policy is not None
    assert "unmetered: true" in as_text(policy)
