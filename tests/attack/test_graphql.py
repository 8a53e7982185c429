"""Rules on GraphQL: a document, an envelope or a URL that says one thing to us and another to the server.

Numbers are those of the list of bypasses. Each attack has its honest twin in `HONEST`. The rest of that list
is about the scope of a document, which rules do not have.
"""

from __future__ import annotations

import json
import time

import pytest

from egress.rules.compile.asked_body import decide_whole
from egress.types import Decision, Headers, Identity
from tests.unit.rules.rule_samples import NOW, head, policy

URL = "https://api.example.com/graphql"
RULES = policy("""
    secrets: {token: {from: "env:TOKEN", hosts: [api.example.com]}}
    hosts:
      api.example.com:
        allow:
          - id: read
            paths: ["/graphql"]
            graphql: {query: [viewer, repository], no_fields: [relay, query]}
          - {id: wide, methods: [GET, POST], paths: ["/**"]}
        inject: [{bearer: token}]
""")
JSON = (("content-type", "application/json"),)
READ = "{viewer{login}}"


def envelope(document: str, **more: object) -> bytes:
    return json.dumps({"query": document, **more}).encode()


def ask(body: bytes, *, url: str = URL, headers: Headers = JSON) -> Decision:
    decision, _ = decide_whole(RULES, Identity("box"), head(f"POST {url}", headers=headers), NOW, body)
    assert decision.allowed or not decision.effects.needs, "a denied request asks for no secret"
    return decision


HONEST = {
    "1": envelope(READ),
    "2": envelope("{deleteX: viewer{login}}"),
    "3": envelope("{...F} fragment F on Query{... on Query{viewer{login}}}"),
    "4": envelope("query A{viewer{login}} query B{repository(name: 1){id}}", operationName="B"),
    "6": envelope(READ, operationName=None),
    "8": envelope(READ, extensions={}),
    "12": envelope("{repository{name}}"),
    "13": envelope("query($s: Boolean!){viewer @skip(if: $s){login}}", variables={"s": True}),
}


@pytest.mark.parametrize("number", HONEST)
def test_an_honest_document_passes(number: str) -> None:
    """The positive control."""
    decision = ask(HONEST[number])
    assert (decision.allowed, decision.rule and decision.rule.id) == (True, "read")


NESTED = "{viewer{login}} ".replace("{viewer{login}}", "{" + "... on Query{" * 9 + "drop" + "}" * 9 + "}")
DENIED = {
    "1 a mutation": (envelope("mutation{viewer}"), "graphql.field"),
    "1 behind a comment": (envelope("# query\n,,mutation{viewer}"), "graphql.field"),
    "1 a subscription": (envelope("subscription{viewer}"), "graphql.field"),
    "2 an alias": (envelope("{viewer: drop{id}}"), "graphql.field"),
    "3 a fragment": (envelope("fragment F on Query{drop} query{...F}"), "graphql.field"),
    "3 deep inline fragments": (envelope(NESTED), "graphql.field"),
    "4 another operation": (
        envelope("query A{viewer{id}} mutation B{drop}", operationName="A"), "graphql.field"
    ),
    "4 chosen": (envelope("query A{viewer{id}} mutation B{drop}", operationName="B"), "graphql.field"),
    "5 one name": (
        envelope("query A{viewer{id}} mutation A{drop}", operationName="A"), "graphql.document"
    ),
    "5 no name": (envelope("{viewer{id}} mutation{drop}"), "graphql.document"),
    "6 a list": (envelope(READ, operationName=["A"]), "graphql.envelope"),
    "6 a number": (envelope(READ, operationName=0), "graphql.envelope"),
    "8 id": (envelope(READ, id="1"), "graphql.envelope"),
    "8 documentId": (envelope(READ, documentId="1"), "graphql.envelope"),
    "8 queryId": (envelope(READ, queryId="1"), "graphql.envelope"),
    "8 a stored document": (
        envelope(READ, extensions={"persistedQuery": {"version": 1, "sha256Hash": "0" * 64}}),
        "graphql.persisted",
    ),
    "9 twice": (b'{"query":"{viewer{a}}","query":"mutation{x}"}', "json.duplicate_key"),
    "9 one escaped": (b'{"query":"{viewer{a}}","quer\\u0079":"mutation{x}"}', "json.duplicate_key"),
    "11 an array": (b"[%b]" % envelope(READ), "graphql.batch"),
    "11 an array with a mutation": (
        b"[%b,%b]" % (envelope("mutation{x}"), envelope(READ)), "graphql.field"
    ),
    "12 the root again": (envelope("{viewer{relay{drop}}}"), "graphql.inner_field"),
    "12 the root again by an alias": (envelope("{viewer{login: query{drop}}}"), "graphql.inner_field"),
    "12 the root again in a fragment": (
        envelope("{viewer{...F}} fragment F on User{... {query{drop}}}"), "graphql.inner_field"
    ),
    "12 the root again in a fragment of a fragment": (
        envelope(
            "{...E} fragment E on Q{viewer{...F}} fragment F on U{...G} fragment G on U{relay{x}}"
        ),
        "graphql.inner_field",
    ),
    "13 skipped": (
        envelope("query($s: Boolean!){viewer{id} drop @skip(if: $s)}", variables={"s": True}), "graphql.field"
    ),
    "13 not included": (envelope("{viewer{id} drop @include(if: false)}"), "graphql.field"),
}  # fmt: skip


@pytest.mark.parametrize("number", DENIED)
def test_a_document_that_hides_what_it_does_is_denied(number: str) -> None:
    body, code = DENIED[number]
    assert ask(body).code == code


@pytest.mark.parametrize(
    "query",
    [
        *("query=mutation{drop}", "QUERY=x", "%71uery=x", "query[]=x", "variables={}", "operationName=B"),
        *("extensions={}", "id=1", "documentId=1", "a=1&query=x", "a=1;query=x"),
    ],
)
def test_nothing_is_asked_in_the_url_beside_a_body(query: str) -> None:
    """7."""
    assert ask(HONEST["1"], url=f"{URL}?{query}").code == "graphql.url_parameters"
    assert ask(HONEST["1"], url=f"{URL}?a=1").allowed


@pytest.mark.parametrize(
    "media_type",
    [
        *("application/graphql", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
        *(
            "text/plain",
            "application/json; charset=utf-16",
            "application/json; charset=utf-7",
            "text/json",
            "",
        ),
    ],
)
def test_another_type_of_body_is_not_read(media_type: str) -> None:
    """10."""
    assert ask(HONEST["1"], headers=(("content-type", media_type),)).code == "body.type"
    assert ask(HONEST["1"], headers=(("content-type", "application/json; charset=utf-8"),)).allowed


@pytest.mark.parametrize("target", ["/graphql/", "/GraphQL", "/graphql.json", "/%67raphql/"])
def test_another_spelling_of_the_path_opens_nothing(target: str) -> None:
    """A wide rule stands beside the one on bodies."""
    assert ask(HONEST["1"], url=f"https://api.example.com{target}").code == "rule.none"
    assert ask(HONEST["1"], url="https://api.example.com/graphql2").allowed


DOUBLING = "{...F0}" + "".join(f" fragment F{n} on Q{{...F{n + 1} ...F{n + 1}}}" for n in range(30))
COSTLY = {
    "aliases": envelope("{" + " ".join(f"a{n}:viewer" for n in range(100_000)) + "}"),
    "fragments that double": envelope(DOUBLING + " fragment F30 on Q{drop}"),
    "levels": envelope("{viewer" * 20_000 + "}" * 20_000),
    "commas": envelope("{viewer{login}}" + "," * 250_000),
    "comments": envelope("#" * 60_000 + "\nmutation{x}"),
    "lists of variables": envelope(READ, variables=json.loads("[" * 60 + "]" * 60)),
    "quotes that never end": b'{"query":"' + b'\\"' * 120_000,
}


@pytest.mark.parametrize("number", COSTLY)
def test_a_costly_document_is_refused_at_little_cost(number: str) -> None:
    """21."""
    begun = time.process_time()
    assert not ask(COSTLY[number]).allowed
    # A tenth of that is usual; what has no bound takes many seconds.
    assert time.process_time() - begun < 2
