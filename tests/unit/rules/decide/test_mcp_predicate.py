"""The predicate `mcp`: allow and deny fail closed in opposite ways."""

from __future__ import annotations

import pytest

from egress.inspect.mcp.requested import (
    ClientReply,
    InputReply,
    McpItem,
    McpToolCall,
    NamedPart,
    PlainMethod,
    SessionUse,
)
from egress.rules.decide.argument_conditions import ArgumentCondition
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.mcp_predicate import (
    FREE_METHODS,
    McpAnswerTerms,
    McpPredicate,
    ToolTerms,
    answer_terms,
)
from egress.rules.decide.name_glob import NameGlob

WHEN = (ArgumentCondition(("repo",), (ValueGlob("a"),)),)
PREDICATE = McpPredicate(
    tools=(
        ToolTerms(ValueGlob("get_*")),
        ToolTerms(ValueGlob("create"), WHEN),
        ToolTerms(ValueGlob("create"), (ArgumentCondition(("repo",), (ValueGlob("b"),)),), is_only=True),
        ToolTerms(ValueGlob("bare"), is_only=True),
    ),
    resources=(NameGlob("repo://acme/**"),),
    prompts=(ValueGlob("review"),),
    methods=("subscriptions/listen",),
    server_requests=("roots/list",),
)
EMPTY = McpPredicate()


def resource(name: str) -> NamedPart:
    return NamedPart("resource", "resources/read", name)


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (McpToolCall("get_issue", {}), ""),
        (McpToolCall("get_issue"), ""),
        (McpToolCall("delete", {}), "mcp.tool"),
        (McpToolCall("Get_issue", {}), "mcp.tool"),
        (McpToolCall("create", {"repo": "a", "x": 1}), ""),
        (McpToolCall("create", {"repo": "b"}), ""),
        (McpToolCall("create", {"repo": "b", "x": 1}), "mcp.arguments"),
        (McpToolCall("create", {"repo": "c"}), "mcp.arguments"),
        (McpToolCall("create"), "mcp.arguments"),
        (McpToolCall("bare", {}), ""),
        (McpToolCall("bare", {"x": 1}), "mcp.arguments"),
        (resource("repo://acme/app"), ""),
        (resource("repo://other/app"), "mcp.resource"),
        (resource("repo://acme/../other"), "mcp.resource"),
        (NamedPart("prompt", "prompts/get", "review"), ""),
        (NamedPart("prompt", "prompts/get", "other"), "mcp.prompt"),
        (PlainMethod("subscriptions/listen"), ""),
        (PlainMethod("tools/delete"), "mcp.method"),
        (ClientReply("roots/list"), ""),
        (ClientReply("sampling/createMessage"), "mcp.reply"),
        (ClientReply(), "mcp.reply"),
        (InputReply(), ""),
        (SessionUse("GET"), ""),
        (SessionUse("DELETE"), ""),
    ],
)
def test_an_allow_covers_what_it_names(item: McpItem, code: str) -> None:
    miss = PREDICATE.misses(item)
    assert (miss.code if miss else "") == code
    assert PREDICATE.expanded(item) is None


@pytest.mark.parametrize("method", sorted(FREE_METHODS))
def test_methods_that_every_session_needs_are_free(method: str) -> None:
    assert EMPTY.misses(PlainMethod(method)) is None


@pytest.mark.parametrize(
    "item",
    [McpToolCall("a", {}), resource("a"), NamedPart("prompt", "prompts/get", "a"), ClientReply("roots/list"),
     InputReply(), PlainMethod("x")],
)  # fmt: skip
def test_an_empty_allow_covers_nothing_else_and_an_empty_deny_is_about_nothing(item: McpItem) -> None:
    assert EMPTY.misses(item) is not None
    assert not EMPTY.denies(item)


@pytest.mark.parametrize(
    ("item", "denies"),
    [
        (McpToolCall("GET_issue", {}), True),
        (McpToolCall("create", {"repo": "z"}), True),
        (McpToolCall("other", {}), False),
        (resource("REPO://acme/app"), True),
        (resource("repo://x/../acme/app"), True),
        (resource("repo://x/app"), False),
        (NamedPart("prompt", "prompts/get", "Review"), True),
        (NamedPart("prompt", "prompts/get", "other"), False),
        (PlainMethod("Subscriptions/Listen"), True),
        (PlainMethod("ping"), False),
        (ClientReply(), False),
        (SessionUse("GET"), False),
    ],
)
def test_a_deny_matches_in_doubt(item: McpItem, denies: bool) -> None:
    assert PREDICATE.denies(item) is denies


def test_a_miss_says_what_is_allowed_and_the_nearest_tells_of_arguments() -> None:
    near, far = PREDICATE.misses(McpToolCall("create", {})), PREDICATE.misses(McpToolCall("x", {}))
    assert near is not None
    assert far is not None
    assert near.nearness > far.nearness
    assert near.text == "only with repo"
    assert far.text == "only tools get_*, create, create, bare"
    none = EMPTY.misses(McpToolCall("x", {}))
    assert none is not None
    assert none.text == "no tools"


def test_an_answer_shows_what_some_rule_allows_and_no_rule_denies() -> None:
    deny = McpPredicate(tools=(ToolTerms(ValueGlob("get_admin")),), prompts=(ValueGlob("x"),))
    terms = answer_terms((PREDICATE, None, McpPredicate(tools=(ToolTerms(ValueGlob("b")),))), (deny,))
    assert terms is not None
    assert [terms.shows("tool", name) for name in ("get_x", "get_admin", "create", "b", "c")] == [
        True, False, True, True, False,
    ]  # fmt: skip
    assert terms.shows("resource", "repo://acme/{name}")
    assert not terms.shows("resource", "repo://{owner}/x")
    assert terms.shows("prompt", "review")
    assert not terms.shows("prompt", "x")
    assert terms.passes_request("roots/list")
    assert not terms.passes_request("sampling/createMessage")
    assert not terms.shows_all
    assert McpAnswerTerms((PREDICATE, McpPredicate(shows_all=True)), ()).shows_all
    assert answer_terms((None,), (deny,)) is None
