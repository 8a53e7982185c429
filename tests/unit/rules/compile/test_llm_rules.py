"""Rules with `llm:`: their paths, their mistakes, and the policy that they become."""

from __future__ import annotations

import pytest

from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import as_text
from egress.rules.compile.rule_tests import run_rule_tests
from egress.rules.decide.policy import Policy


def rules(llm: str, more: str = "", host: str = "api.example.test") -> str:
    return f"version: 1\n{more}hosts:\n  {host}:\n    allow:\n      - {{ id: calls, llm: {llm} }}\n"


def findings(llm: str, more: str = "") -> list[str]:
    return [f"{each.message} | {each.hint}" for each in load([RuleText("f.yaml", rules(llm, more))]).findings]


def policy(text: str) -> Policy:
    loaded = load([RuleText("f.yaml", text)])
    assert loaded.policy is not None, loaded.findings
    return loaded.policy


@pytest.mark.parametrize(
    ("llm", "said"),
    [
        ("{ api: anthropic, models: [] }", "an empty list matches nothing"),
        ('{ api: anthropic, models: ["a b"] }', "`a b` is not the name of a model"),
        ('{ api: anthropic, models: ["*"], server_tools: ["a b"] }', "`a b` is not the name of a tool"),
        ('{ api: anthropic, models: ["*"], over: clamp }', "`over` needs `max_output`"),
        ('{ api: nothing, models: ["*"] }', "`nothing` is not one of"),
        ('{ api: anthropic, models: ["*"], max_output: 5, budget: gone }', "unknown budget `gone`"),
    ],
)
def test_a_mistake_is_reported(llm: str, said: str) -> None:
    (found,) = findings(llm)
    assert said in found


def test_a_budget_of_dollars_needs_a_price() -> None:
    budgets = "budgets: { agents: { usd: 5/hour } }\n"
    assert "`budget` needs `max_output`" in str(
        findings('{ api: anthropic, models: ["*"], budget: agents }', budgets)
    )
    (found,) = findings('{ api: anthropic, models: ["*"], max_output: 5, budget: agents }', budgets)
    assert "no model has a price" in found
    assert (
        findings(
            '{ api: openai-embeddings, models: ["*"], budget: [tok] }',
            "budgets: { tok: { tokens: 5/hour } }\n",
        )
        == []
    )


@pytest.mark.parametrize(
    ("api", "path"),
    [
        ("anthropic", "/v1/messages"),
        ("openai-chat", "/v1/chat/completions"),
        ("openai-responses", "/v1/responses"),
        ("openai-embeddings", "/v1/embeddings"),
        ("gemini", "/v1beta/models/m:streamGenerateContent"),
        ("bedrock-converse", "/model/arn:aws:x:inference-profile%2Fm/converse"),
        ("bedrock-invoke", "/model/m/invoke-with-response-stream"),
    ],
)
def test_an_api_implies_its_paths(api: str, path: str) -> None:
    test = f"    tests:\n      - {{ request: 'POST {path}', llm: m max=5, expect: allow calls }}\n"
    for result in run_rule_tests(policy(rules(f'{{ api: {api}, models: ["*m"] }}') + test), 0):
        assert result.problem == ""


def test_other_paths_can_be_named_and_are_claimed() -> None:
    text = rules('{ api: openai-chat, models: ["m"] }, paths: ["/proxy/chat/completions"]')
    text += "      - { id: all, paths: ['/**'] }\n    tests:\n"
    text += "      - { request: POST /proxy/chat/completions, llm: m, expect: allow calls }\n"
    text += "      - { request: POST /proxy/chat/completions, llm: x, expect: deny llm.model }\n"
    text += "      - { request: POST /v1/chat/completions, llm: x, expect: allow all }\n"
    assert [result.problem for result in run_rule_tests(policy(text), 0)] == [""] * 3


@pytest.mark.parametrize(
    "rule",
    [
        '{ id: calls, llm: { api: anthropic, models: ["claude-*"] } }',
        '{ id: calls, llm: { api: bedrock-converse, models: ["*"], max_output: 5, over: clamp } }',
        '{ id: calls, llm: { api: anthropic, models: ["*"], server_tools: [url] } }',
        '{ id: calls, paths: ["/x"], llm: { api: openai-chat, models: [m] } }',
    ],
)
def test_a_policy_is_written_as_it_was_read(rule: str) -> None:
    first = policy(f"version: 1\nhosts:\n  api.example.test:\n    allow:\n      - {rule}\n")
    again = policy(as_text(first))
    assert [each.predicates for each in next(iter(again.entries.values())).allow] == [
        each.predicates for each in next(iter(first.entries.values())).allow
    ]


def test_two_kinds_do_not_stand_in_one_rule_and_two_apis_do_not_share_a_path() -> None:
    (found,) = findings('{ api: anthropic, models: ["*"] }, graphql: { query: any }')
    assert "`llm` cannot be combined with `graphql`" in found
    both = rules('{ api: anthropic, models: ["*"] }, paths: ["/v1/**"]')
    both += '      - { id: chat, llm: { api: openai-chat, models: ["*"] } }\n'
    assert "read the same body as two languages" in str(load([RuleText("f.yaml", both)]).findings)


def test_a_deny_names_models_and_tools() -> None:
    text = rules('{ api: anthropic, models: ["*"], server_tools: [web_search] }')
    text += "    deny:\n      - { id: no-opus, llm: { api: anthropic, models: ['claude-opus-*'] } }\n"
    text += "      - { id: no-search, llm: { api: anthropic, server_tools: [web_search] } }\n"
    text += "    tests:\n"
    text += "      - { request: POST /v1/messages, llm: Claude-Opus-4, expect: deny no-opus }\n"
    text += "      - { request: POST /v1/messages, llm: haiku tool=web_search, expect: deny no-search }\n"
    text += "      - { request: POST /v1/messages, llm: claude-haiku-4, expect: allow calls }\n"
    assert [result.problem for result in run_rule_tests(policy(text), 0)] == [""] * 3
