"""Rules on GraphQL requests: every numbered request of the table, and how rules add up over one request."""

from __future__ import annotations

import pytest

from egress.inspect.inspector import Facts
from egress.rules.compile.asked_body import decide_whole
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import Policy
from egress.types import Decision, Head, Headers, Identity
from tests.unit.inspect.graphql.scope_vectors import SCOPE_VECTORS
from tests.unit.inspect.graphql.vectors import ALLOWED, JSON_TYPE, READ, VECTORS, Vector, digest, envelope

SANDBOX = Identity("test")
NOW = 1_800_000_000
TYPE: Headers = (("content-type", JSON_TYPE),)


def policy_of(*rules: str, deny: str = "[]", more: str = "") -> Policy:
    listed = "".join(f"\n      - {{id: r{n}, paths: [/graphql], {rule}}}" for n, rule in enumerate(rules))
    text = f"version: 1\nhosts:\n  api.example.test:\n    deny: {deny}\n    allow:{listed}{more}\n"
    loaded = load([RuleText("hosts.yaml", text)], {}, None)
    assert loaded.policy is not None, loaded.findings
    return loaded.policy


def ask(
    policy: Policy, body: bytes, *, target: str = "/graphql", method: str = "POST", headers: Headers = TYPE
) -> Decision:
    head = Head(method, "https", "api.example.test", 443, target, headers)
    return decide_whole(policy, SANDBOX, head, NOW, body)[0]


TABLE = (*VECTORS, *SCOPE_VECTORS)


@pytest.mark.parametrize("vector", TABLE, ids=[each.number for each in TABLE])
def test_a_request_of_the_table(vector: Vector) -> None:
    decision = ask(policy_of(vector.rule), vector.body, target=vector.target, headers=vector.headers)
    assert (decision.code, decision.item) == (vector.code, vector.item)
    assert decision.allowed is (vector.code == ALLOWED)


QUERIES = "graphql: {query: [viewer]}"
MUTATIONS = "graphql: {mutation: [add*]}"


def test_different_rules_may_cover_the_fields_of_one_document() -> None:
    both = envelope("query A{viewer{a}} mutation B{addX}", operationName="A")
    assert ask(policy_of(QUERIES, MUTATIONS), both).allowed
    assert ask(policy_of(QUERIES), both).item == "mutation.addX"


def test_the_first_rule_that_covers_a_field_is_named() -> None:
    decision = ask(policy_of(MUTATIONS, QUERIES), envelope(READ))
    assert decision.rule is not None
    assert decision.rule.id == "r1"


@pytest.mark.parametrize("name", ["viewer", "Viewer", "VIEWER"])
def test_a_deny_of_a_field_wins_in_any_case_of_its_letters(name: str) -> None:
    policy = policy_of(
        "graphql: {query: any}", deny="[{id: no, paths: [/graphql], graphql: {query: [viewer]}}]"
    )
    decision = ask(policy, envelope(f"{{a {name}{{b}}}}"))
    assert (decision.code, decision.item) == ("rule.denied", f"query.{name}")
    assert ask(policy, envelope("{a}")).allowed


def test_a_deny_alone_reads_the_bodies_of_plain_rules() -> None:
    policy = policy_of("methods: [POST]", deny="[{id: no, paths: [/graphql], graphql: {mutation: any}}]")
    assert ask(policy, envelope(READ)).allowed
    assert ask(policy, envelope("mutation{a}")).code == "rule.denied"
    assert ask(policy, b"{").code == "body.json"
    assert ask(policy, b"x", headers=(("content-type", "text/plain"),)).code == "body.type"


@pytest.mark.parametrize("target", ["/graphql", "/graphql/", "/GraphQL"])
@pytest.mark.parametrize("method", ["POST", "PUT", "GET"])
def test_a_claimed_path_is_opened_by_no_plain_rule(method: str, target: str) -> None:
    wide = "\n      - {id: all, paths: ['/**']}"
    policy = policy_of(QUERIES, more=wide)
    assert not ask(policy, b"x", method=method, target=target, headers=()).allowed
    assert ask(policy, b"x", method=method, target="/other", headers=()).allowed


def test_a_claim_outlives_its_rule() -> None:
    wide = "\n      - {id: all, paths: ['/**']}"
    policy = policy_of(f"{QUERIES}, expires: 2001-01-01", more=wide)
    assert ask(policy, envelope(READ)).code == "rule.none"


def test_introspection_needs_its_key() -> None:
    asked = envelope("{__schema{types{name}} viewer{a}}")
    assert ask(policy_of("graphql: {query: any}"), asked).code == "graphql.introspection"
    assert ask(policy_of("graphql: {query: any, introspection: true}"), asked).allowed
    assert not ask(
        policy_of("graphql: {query: [viewer], introspection: true}"), envelope("{__other}")
    ).allowed


def test_an_inner_field_that_leads_back_to_the_root_is_refused_at_any_depth() -> None:
    policy = policy_of("graphql: {mutation: [addX], no_fields: [query, relay]}")
    assert ask(policy, envelope("mutation{addX{a}}")).allowed
    for document in ("mutation{addX{query{secret}}}", "mutation{addX{...F}} fragment F on P{a{relay{b}}}"):
        assert ask(policy, envelope(document)).code == "graphql.inner_field"


STORED = digest(READ)["persistedQuery"]


def test_a_registered_digest_stands_for_its_fields() -> None:
    name = STORED["sha256Hash"]  # type: ignore[index]
    body = b'{"extensions": {"persistedQuery": {"version": 1, "sha256Hash": "%b"}}}' % name.encode()
    rule = f'graphql: {{query: [viewer], persisted: {{"{name}": {{query: [viewer]}}}}}}'
    assert ask(policy_of(rule), body).allowed
    assert ask(policy_of(rule.replace("query: [viewer], p", "query: [a], p")), body).item == "query.viewer"
    deny = "[{id: no, paths: [/graphql], graphql: {query: [viewer]}}]"
    assert ask(policy_of(rule, deny=deny), body).code == "rule.denied"


def test_get_is_for_rules_that_say_so_and_for_queries() -> None:
    rule = policy_of("graphql: {query: [viewer], mutation: any, get: true}")
    asked = "/graphql?query=%7Bviewer%7Blogin%7D%7D&variables=%7B%7D"
    assert ask(rule, b"", target=asked, method="GET", headers=()).allowed
    assert not ask(policy_of(QUERIES), b"", target=asked, method="GET", headers=()).allowed
    for target in (asked + "&query=%7Ba%7D", asked + "&id=1", "/graphql?query=mutation%7Ba%7D", "/graphql"):
        assert not ask(rule, b"", target=target, method="GET", headers=()).allowed
    assert not ask(rule, b"x", target=asked, method="GET", headers=()).allowed


def test_observe_mode_lifts_a_field_that_no_rule_allows_and_nothing_that_cannot_be_read() -> None:
    policy = policy_of(QUERIES, more="\n    mode: observe")
    assert ask(policy, envelope("{other}")).code == "observed"
    assert ask(policy, b"{").code == "body.json"
    assert ask(policy, envelope(READ), headers=()).code == "body.type"


@pytest.mark.parametrize("coding", ["gzip", "identity, gzip", "br"])
def test_a_coded_body_is_not_read(coding: str) -> None:
    headers = (*TYPE, ("content-encoding", coding))
    assert ask(policy_of(QUERIES), envelope(READ), headers=headers).code == "body.encoding"
    assert ask(policy_of(QUERIES), envelope(READ), headers=(*TYPE, ("content-encoding", "identity"))).allowed


@pytest.mark.parametrize(
    ("method", "body", "code"),
    [
        ("POST", envelope("{other}"), "observed"),
        ("POST", b"{", "body.json"),
        ("PUT", envelope(READ), "body.type"),
        ("GET", b"", "graphql.url_parameters"),
    ],
)
def test_observe_mode_reads_what_no_rule_is_about(method: str, body: bytes, code: str) -> None:
    """The rule is over, or wants a header that is not there: its path stays one on which bodies are read."""
    for more in ("expires: 2020-01-01", 'headers: {x-team: "a"}'):
        policy = policy_of(f"{QUERIES}, {more}", more="\n    mode: observe")
        head = Head(method, "https", "api.example.test", 443, "/graphql", TYPE)
        decision, found = decide_whole(policy, SANDBOX, head, NOW, body)
        assert decision.code == code, more
        if decision.allowed:
            assert isinstance(found, Facts)
            assert found.log == {"graphql_query": "other"}
