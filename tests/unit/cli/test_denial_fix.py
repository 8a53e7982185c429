"""What a denial advises works: the YAML, put where it says, allows the request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.cli.denial_fix import DenialFix, find_fix
from egress.rules.compile.asked_body import graphql_body
from egress.rules.compile.asked_mcp import mcp_body
from egress.rules.decide.explain import explain
from egress.rules.decide.policy import Policy
from egress.types import Head, Identity
from tests.unit.rules.rule_samples import NOW, decision_text, head, policy

RULES = """\
secrets:
  token: {from: "env:TOKEN", hosts: [api.example.com]}
hosts:
  api.example.com:
    allow:
      - {id: read, methods: [GET]}
    inject: [{bearer: token}]
  docs.example.com: {methods: [GET]}
  closed.example.com: {allow: []}
  old.example.com: {expires: 2020-01-01}
deny:
  - {id: no-delete, methods: [DELETE]}
"""


def advice(request: str | Head, rules: Policy | None = None, *, profile: str | None = None) -> DenialFix:
    chosen = policy(RULES) if rules is None else rules
    asked = head(request) if isinstance(request, str) else request
    return find_fix(chosen, asked, explain(chosen, Identity("box", profile), asked, NOW))


@pytest.mark.parametrize(
    ("request_line", "yaml"),
    [
        ("GET https://new.example.org/x", "hosts:\n  new.example.org: {}"),
        ("GET https://new.example.org:8443/", "hosts:\n  new.example.org: {ports: [8443]}"),
        ("GET http://new.example.org/", "hosts:\n  new.example.org: {ports: [], http: [80]}"),
        ("GET https://192.0.2.7/", 'networks:\n  - {cidr: "192.0.2.7/32", allow: all}'),
        ("GET https://[2001:db8::7]/", 'networks:\n  - {cidr: "2001:db8::7/128", allow: all}'),
        (
            "GET http://192.0.2.7:8080/",
            'networks:\n  - {cidr: "192.0.2.7/32", ports: [], http: [8080], allow: all}',
        ),
    ],
)
def test_what_is_to_be_added_allows_the_request(request_line: str, yaml: str) -> None:
    assert "\n".join(advice(request_line).yaml) == yaml
    assert decision_text(policy(RULES), request_line).startswith("deny")
    assert decision_text(policy(RULES, f"{yaml}\nversion: 1\n"), request_line) == "allow host"


@pytest.mark.parametrize(
    ("request_line", "key", "yaml"),
    [
        (
            "POST https://api.example.com/a/b?x=1",
            "api.example.com",
            "- {id: new, methods: [POST], paths: [/a/b]}",
        ),
        ("GET https://docs.example.com:8443/", "docs.example.com", "ports: [443, 8443]"),
        ("GET http://docs.example.com:8080/", "docs.example.com", "http: [8080]"),
    ],
)
def test_what_is_to_be_written_under_an_entry_names_the_entry(request_line: str, key: str, yaml: str) -> None:
    found = advice(request_line)
    assert f"under {key} (hosts.yaml:" in found.sentence
    assert "\n".join(found.yaml) == yaml


@pytest.mark.parametrize("path", ["/a/b", "/a", "/", "/b%C3%BC/x", "/a:b/", "/x@y=z,w"])
def test_a_rule_for_one_request_allows_no_other(path: str) -> None:
    found = advice(f"POST https://api.example.com{path}")
    opened = policy(RULES.replace("      - {id: read", f"      {found.yaml[0]}\n      - {{id: read"))
    assert decision_text(opened, f"POST https://api.example.com{path}") == "allow new, inject token"
    assert decision_text(opened, f"POST https://api.example.com{path}b") == "deny rule.none"
    assert decision_text(opened, f"PUT https://api.example.com{path}") == "deny rule.none"


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/a/*"), ("POST", "/a/**"), ("OPTIONS", "*"), ("POST", "//a"), ("POST", "/a;b")],
)
def test_no_rule_is_proposed_that_would_allow_more_or_nothing(method: str, target: str) -> None:
    found = advice(Head(method, "https", "api.example.com", 443, target))
    assert found.yaml == ()
    assert "no pattern in `paths` can match exactly this path" in found.sentence


def test_an_escaped_slash_that_other_rules_take_is_taken_by_the_new_one_too() -> None:
    text = 'hosts:\n  a.example.com:\n    allow:\n      - {id: o, paths: ["/o/*"], encoded_slash: data}\n'
    found = advice("GET https://a.example.com/x%2Fy", policy(text))
    opened = policy(f"{text}      {found.yaml[0]}\n")
    assert decision_text(opened, "GET https://a.example.com/x%2Fy") == "allow new"


def test_beside_a_preset_the_entry_is_written_out() -> None:
    presets = {
        "p": "title: P\nhosts:\n  p.example.com: {allow: [{id: read, methods: [GET]}]}\n",
    }
    rules = policy("use: [p]", presets=presets)
    found = advice("POST https://p.example.com/x", rules)
    assert "the preset's entry" in found.sentence
    opened = policy("use: [p]", "\n".join([*found.yaml, "version: 1"]), presets=presets)
    assert decision_text(opened, "POST https://p.example.com/x") == "allow new"


def test_a_deny_of_a_preset_is_said_to_belong_to_it() -> None:
    presets = {"p": "title: P\nhosts:\n  p.example.com: {allow: all, deny: [{id: no, methods: [PUT]}]}\n"}
    assert (
        "deny is part of the preset: `without: [p-no]` beside the preset at hosts.yaml:1 lifts it"
        in advice("PUT https://p.example.com/", policy("use: [p]", presets=presets)).sentence
    )


@pytest.mark.parametrize(
    ("request_line", "says"),
    [
        ("GET http://api.example.com/", "never opened for clear text"),
        ("GET https://closed.example.com/", "`allow: []` closes the host"),
        ("GET https://old.example.com/", "no allow rule is in force"),
        ("POST https://docs.example.com/", "widen the predicates under docs.example.com"),
        ("DELETE https://docs.example.com/", "narrow or remove deny#no-delete"),
        ("get https://docs.example.com/", "use GET"),
        ("TRACE https://docs.example.com/", "Egress never forwards this one"),
        ("GET https://docs.example.com/a/../b", "send the path in its plain form"),
        ("GET https://docs.exampel.com/", "did you mean docs.example.com?"),
    ],
)
def test_other_denials_say_what_to_do(request_line: str, says: str) -> None:
    assert says in advice(request_line).sentence


def test_a_websocket_where_only_other_methods_are_open_takes_a_rule_of_its_own() -> None:
    rules = policy("hosts: {a.example.com: {allow: [{id: ask, methods: [POST], paths: [/answers]}]}}")
    asked = head("GET https://a.example.com/answers", websocket=True)
    fix = find_fix(rules, asked, explain(rules, Identity("box"), asked, NOW))
    assert "to allow only this" in fix.sentence
    assert fix.yaml[-1].endswith("{id: new, methods: [GET], paths: [/answers], websocket: true}")


def test_a_websocket_says_where_it_is_allowed() -> None:
    asked = head("GET https://docs.example.com/", websocket=True)
    assert "`websocket: true`" in advice(asked).sentence


def with_profile(name: str) -> Policy:
    return policy(f"{RULES}profiles:\n  {name}: {{hosts: [api.example.com]}}\n")


def test_a_profile_is_told_what_to_include() -> None:
    rules = with_profile("default")
    assert (
        "add docs.example.com to `hosts` of the profile default (hosts.yaml:"
        in advice("GET https://docs.example.com/", rules).sentence
    )


def test_a_profile_that_does_not_exist_is_told_the_ones_that_do() -> None:
    rules = with_profile("agents")
    assert advice("GET https://api.example.com/", rules).sentence == (
        "the rules have no profile `default`; choose with --profile: agents"
    )
    assert (
        "did you mean `agents`?" in advice("GET https://api.example.com/", rules, profile="agnets").sentence
    )
    assert "agents" in advice("GET https://api.example.com/", rules, profile="zzz").sentence


def test_a_destination_that_is_no_name_is_told_to_be_one() -> None:
    assert advice(Head("GET", "https", "10.0.1", 443, "/")).sentence


def test_a_port_of_a_preset_is_opened_in_an_entry_of_the_file() -> None:
    rules = policy("use: [p]", presets={"p": "title: P\nhosts:\n  p.example.com: {methods: [GET]}\n"})
    found = advice("GET https://p.example.com:8443/", rules)
    assert found.yaml == ("hosts:", "  p.example.com:", "    ports: [443, 8443]")


BODIES = """\
hosts:
  git.example.com:
    allow:
      - {id: work, git: {push: {repos: [acme/app], refs: ["refs/heads/agent/**"]}}}
  api.example.com:
    allow:
      - {id: ask, paths: [/graphql], graphql: {query: [viewer]}}
"""


def on_body(document: str) -> str:
    rules = policy(BODIES)
    asked = head("POST https://api.example.com/graphql")
    asked = replace(asked, headers=(("content-type", "application/json"),))
    body = graphql_body(document)
    return find_fix(rules, asked, explain(rules, Identity("box"), asked, NOW, body=body)).sentence


def test_an_operator_is_told_which_field_to_add() -> None:
    assert "`mutation: [addComment]`" in on_body("mutation { me: addComment { id } }")
    assert "`introspection: true`" in on_body("{ __schema { types { name } } }")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("call delete_repo", "add delete_repo to `tools` in `mcp`"),
        ("read repo://a", 'add "repo://a" to `resources` in `mcp`'),
        ("prompt review", "add review to `prompts` in `mcp`"),
        ("subscriptions/listen", "add subscriptions/listen to `methods` in `mcp`"),
    ],
)
def test_an_operator_is_told_which_part_of_mcp_to_add(message: str, words: str) -> None:
    rules = policy("hosts: {api.example.com: {allow: [{id: mcp, paths: [/mcp], mcp: {}}]}}\n")
    asked = replace(head("POST https://api.example.com/mcp"), headers=(("content-type", "application/json"),))
    answer = explain(rules, Identity("box"), asked, NOW, body=mcp_body(message))
    assert words in find_fix(rules, asked, answer).sentence


def test_a_body_of_no_type_is_told_how_to_be_given() -> None:
    rules = policy(BODIES)
    graphql = advice("POST https://api.example.com/graphql", rules).sentence
    assert "--graphql" in graphql
    assert "content-type: application/json" in graphql
    push = advice("POST https://git.example.com/acme/app/git-receive-pack", rules).sentence
    assert "{ git: push acme/app refs/heads/x, expect: allow }" in push
    assert advice("PUT https://api.example.com/graphql", rules).sentence
