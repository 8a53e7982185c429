"""The predicate `llm`: which calls a rule covers, and on which terms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.inspect.llm.llm_call import LlmCall
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.graphql_predicate import GraphqlPredicate
from egress.rules.decide.llm_predicate import LlmPredicate, LlmTerms, llm_terms

RULE = LlmPredicate("anthropic", (ValueGlob("claude-haiku-*"),), max_output=16_000, budgets=("agents",))
CLAMP = replace(RULE, clamps=True)
CALL = LlmCall("anthropic", ("claude-haiku-4",), max_output=1000)


def code(rule: LlmPredicate, call: object) -> str:
    miss = rule.misses(call)
    return "" if miss is None else miss.code


@pytest.mark.parametrize(
    ("call", "denied", "clamped"),
    [
        (CALL, "", ""),
        (replace(CALL, models=("claude-opus-x",)), "llm.model", "llm.model"),
        (replace(CALL, models=("Claude-haiku-4",)), "llm.model", "llm.model"),
        (replace(CALL, models=("claude-haiku-4", "claude-opus-x")), "llm.model", "llm.model"),
        (replace(CALL, server_tools=("web_search",)), "llm.server_tool", "llm.server_tool"),
        (replace(CALL, is_unmetered=True), "llm.unmetered", "llm.unmetered"),
        (replace(CALL, max_output=64_000), "llm.max_output", ""),
        (replace(CALL, max_output=None), "llm.max_output", ""),
        (replace(CALL, choices=8), "llm.choices", ""),
        (replace(CALL, max_output=64_000, is_signed=True), "llm.max_output", "llm.signed"),
        (replace(CALL, api="gemini"), "internal", "internal"),
        ("another", "internal", "internal"),
    ],
)
def test_vectors_12_to_16_and_23_each_bound_denies_or_clamps(call: object, denied: str, clamped: str) -> None:
    assert code(RULE, call) == denied
    assert code(CLAMP, call) == clamped


def test_answers_at_once_count_together() -> None:
    several = replace(RULE, choices=4)
    assert code(several, replace(CALL, choices=4, max_output=4000)) == ""
    assert code(several, replace(CALL, choices=4, max_output=4001)) == "llm.max_output"


def test_tools_that_are_listed_are_allowed() -> None:
    searching = replace(RULE, server_tools=("web_search",))
    assert code(searching, replace(CALL, server_tools=("web_search",))) == ""
    assert code(searching, replace(CALL, server_tools=("web_search", "url"))) == "llm.server_tool"


def test_a_deny_compares_without_case_and_matches_in_doubt() -> None:
    deny = LlmPredicate("anthropic", (ValueGlob("claude-opus-*"),), server_tools=None)
    assert deny.denies(replace(CALL, models=("a", "CLAUDE-OPUS-4")))
    assert not deny.denies(CALL)
    assert deny.denies("something")
    tools = LlmPredicate("anthropic", None, server_tools=("mcp_servers",))
    assert tools.denies(replace(CALL, server_tools=("url", "mcp_servers")))
    assert not tools.denies(CALL)
    assert LlmPredicate("anthropic", None, server_tools=None).denies(CALL)


def test_it_is_written_as_it_was_read() -> None:
    assert RULE.fields() == {
        "api": "anthropic", "models": ["claude-haiku-*"], "max_output": 16_000, "budget": ["agents"],
    }  # fmt: skip
    full = replace(CLAMP, choices=2, server_tools=("url",))
    assert list(full.fields()) == ["api", "models", "max_output", "over", "choices", "server_tools", "budget"]
    assert (RULE.kind, RULE.expanded(CALL)) == ("llm.anthropic", None)


def test_several_rules_widen_the_bounds_and_add_up_the_budgets() -> None:
    other = replace(RULE, max_output=500, choices=3, budgets=("agents", "team"), clamps=True)
    assert llm_terms([RULE, other]) == LlmTerms(
        "anthropic", max_output=16_000, choices=3, clamps=True, budgets=("agents", "team")
    )
    assert llm_terms([RULE, replace(RULE, max_output=None, budgets=())]) == LlmTerms(
        "anthropic", budgets=("agents",)
    )
    assert llm_terms([None, GraphqlPredicate(())]) is None
