"""Deciding the log again: what would change, and what the log cannot tell."""

from __future__ import annotations

from egress.review.drafting.replay import Replay, replay
from egress.review.drafting.traffic import Traffic
from egress.rules.compile.load import RuleText, load
from tests.unit.review.drafting.sample import GITHUB, NOW, denied, exchange, refusal, tunnel

SECRET = "secrets: {github: {from: 'env:T', hosts: [api.example.com]}}\n"


def replayed(hosts: str, *lines: dict[str, object], top: str = "") -> Replay:
    loaded = load([RuleText("hosts.yaml", f"version: 1\n{top}hosts:\n{hosts}")])
    assert loaded.policy is not None, loaded.findings
    return replay(Traffic.of(lines), loaded.policy, NOW)


def test_what_was_decided_alike_is_the_same() -> None:
    found = replayed("  api.example.com: {methods: [GET]}\n", exchange(), denied("rule.none", "POST"))
    assert found == Replay(same=2)


def test_newly_denied_and_newly_allowed_are_grouped_with_an_example() -> None:
    found = replayed(
        "  api.example.com: {methods: [POST]}\n",
        exchange(path="/a"),
        exchange(path="/b", request="c-1-2"),
        denied("rule.none", "POST", request="c-9"),
    )
    (gone,), (new,) = found.denied, found.allowed
    assert (gone.code, gone.count, gone.paths, gone.path, gone.example) == ("rule.none", 2, 2, "/a", "c-1-1")
    assert (new.code, new.method, new.count, new.example) == ("rule.none", "POST", 1, "c-9")
    assert new.rule == "api.example.com#host"


def test_what_the_rules_did_not_decide_is_not_compared() -> None:
    found = replayed("  api.example.com: {}\n", denied("limit.requests"), denied("upstream.timeout"))
    assert found == Replay(not_compared=2)
    cut = exchange(verdict="cut", code="canary.seen")
    assert replayed("  b.example.com: {}\n", cut, exchange(code="limit.response_body")) == Replay(
        not_compared=2
    )


def test_rules_that_look_inside_cannot_be_told() -> None:
    found = replayed("  api.example.com: {allow: [{id: q, query: {page: '1'}}]}\n", exchange())
    assert not found.denied
    assert [(one.rule, one.count) for one in found.untold] == [("api.example.com#q", 1)]


def test_a_denial_for_a_header_cannot_be_told() -> None:
    found = replayed("  api.example.com: {}\n", denied("method.override", "POST"))
    assert not found.allowed
    assert len(found.untold) == 1


def test_a_path_that_was_cut_cannot_be_told() -> None:
    found = replayed("  api.example.com: {paths: [/a]}\n", exchange(path="/abc\N{HORIZONTAL ELLIPSIS}"))
    assert len(found.untold) == 1
    gone = replayed("  b.example.com: {}\n", exchange(path="/abc\N{HORIZONTAL ELLIPSIS}"))
    assert len(gone.denied) == 1


def test_other_secrets_are_a_change_of_their_own() -> None:
    hosts = "  api.example.com: {allow: all, inject: [{bearer: github}]}\n"
    found = replayed(hosts, exchange(), top=SECRET)
    assert [one.note for one in found.secrets] == ["now github"]
    assert replayed(hosts, exchange(injected=GITHUB), top=SECRET).same == 1
    gone = replayed("  api.example.com: {}\n", exchange(injected=GITHUB))
    assert [one.note for one in gone.secrets] == ["no longer github"]


def test_where_none_may_have_left_the_secrets_are_not_compared() -> None:
    hosts = "  api.example.com: {allow: all, inject: [{bearer: github}]}\n"
    assert replayed(hosts, exchange(code="upstream.closed"), top=SECRET).same == 1


def test_a_tunnel_stays_one_or_is_read_or_denied() -> None:
    assert replayed("  pinned.example.net: {intercept: never}\n", tunnel()).same == 1
    assert len(replayed("  pinned.example.net: {}\n", tunnel()).untold) == 1
    assert len(replayed("  other.example.net: {}\n", tunnel()).denied) == 1


def test_a_connection_and_a_name_that_would_open_are_newly_allowed() -> None:
    found = replayed(
        "  a.example.com: {}\n",
        refusal("host.unknown", "a.example.com"),
        refusal("host.unknown", "a.example.com", 0, "dns"),
        refusal("host.unknown", "b.example.com"),
    )
    assert [(one.host, one.port, one.count) for one in found.allowed] == [
        ("a.example.com", 0, 1),
        ("a.example.com", 443, 1),
    ]
    assert found.same == 1


# Bodies -------------------------------------------------------------------------------------------

GRAPHQL = "  api.example.com: {allow: [{id: gql, paths: [/graphql], graphql: {query: [viewer]}}]}\n"


def asked(fields: str, **more: str) -> dict[str, object]:
    facts = {"body": "graphql", "body_bytes": 9, "graphql_query": fields}
    return {**exchange(method="POST", path="/graphql"), "facts": facts, **more}


def test_the_recorded_facts_of_a_body_are_judged_again() -> None:
    assert replayed(GRAPHQL, asked("viewer")) == Replay(same=1)
    (gone,) = replayed(GRAPHQL, asked("viewer secret")).denied
    assert (gone.code, gone.count) == ("graphql.field", 1)
    refused = asked("viewer", verdict="deny", code="graphql.field")
    assert [one.rule for one in replayed(GRAPHQL, refused).allowed] == ["api.example.com#gql"]


MCP = """\
  api.example.com:
    allow:
      - id: tools
        paths: [/mcp]
        mcp: {tools: [search, {name: create, when: {repo: a}}]}
"""


def called(tool: str, arguments: str = "", **more: str) -> dict[str, object]:
    facts = {"body": "mcp", "mcp_method": "tools/call", "mcp_tool": tool}
    facts |= {"mcp_arguments": arguments} if arguments else {}
    return {**exchange(method="POST", path="/mcp"), "facts": facts, **more}


def test_a_recorded_call_of_a_tool_is_judged_as_far_as_it_is_known() -> None:
    assert replayed(MCP, called("search", "query")) == Replay(same=1)
    assert [one.code for one in replayed(MCP, called("delete", "repo")).denied] == ["mcp.tool"]
    refused = called("search", verdict="deny", code="mcp.tool")
    assert [one.rule for one in replayed(MCP, refused).allowed] == ["api.example.com#tools"]
    # The log has the names of arguments, and a rule asks for their values.
    (untold,) = replayed(MCP, called("create", "repo")).untold
    assert (untold.code, untold.note) == (
        "mcp.arguments",
        "a rule asks for arguments of a tool, which are not logged",
    )
    assert [one.code for one in replayed(MCP, called("create")).untold] == ["mcp.arguments"]


def test_a_call_of_a_model_is_judged_again_by_its_facts() -> None:
    llm = "{api: anthropic, models: [m-1], max_output: 50}"
    rules = f"  api.example.com: {{allow: [{{id: calls, llm: {llm}}}]}}\n"
    facts: dict[str, object] = {
        "body": "llm.anthropic",
        "llm_models": "m-1",
        "llm_max_output": 50,
        "llm_cost": 7,
    }
    line = {**exchange(method="POST", path="/v1/messages"), "facts": facts}
    assert replayed(rules, line) == Replay(same=1)
    (gone,) = replayed(rules, {**line, "facts": {**facts, "llm_models": "m-1 m-2"}}).denied
    assert gone.code == "llm.model"
    (more,) = replayed(rules, {**line, "facts": {**facts, "llm_max_output": 51}}).denied
    assert more.code == "llm.max_output"


def test_a_body_that_is_not_in_the_log_cannot_be_told() -> None:
    lines = (exchange(method="POST", path="/graphql"), asked("viewer …"))
    found = replayed(GRAPHQL, *lines)
    assert not found.denied
    assert sum(one.count for one in found.untold) == 2


def test_the_repositories_that_a_document_named_cannot_be_told() -> None:
    scoped = GRAPHQL.replace("[viewer]", "[viewer, repository], scope: {github: [acme/app]}")
    (untold,) = replayed(scoped, asked("repository")).untold
    assert "repositories that a document named" in untold.note
    assert [one.code for one in replayed(scoped, asked("other")).denied] == ["graphql.field"]
