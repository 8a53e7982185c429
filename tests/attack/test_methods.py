"""Class 7, method scope: the method of the request line is the one that counts, and it is an exact one.

Cases S-17 (a method that no rule names), S-59 (a mutation where reading is allowed), and overriding headers,
parameters and spellings.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.rules.decide.decision import METHOD_OVERRIDES, decide
from egress.types import Identity
from tests.unit.rules.rule_samples import NOW, ask, decision_text, head, policy

API = "https://api.example.com"
RULES = policy("""
    secrets: {token: {from: "env:TOKEN", hosts: [api.example.com]}}
    hosts:
      api.example.com:
        allow:
          - {id: read, methods: [GET, HEAD]}
          - {id: query, methods: [POST], paths: [/search], content_type: [application/json]}
        deny: [{id: no-graphql, paths: [/graphql]}]
        inject: [{bearer: token}]
""")
JSON = (("content-type", "application/json"),)


def test_the_named_methods_pass() -> None:
    """The positive control."""
    assert decision_text(RULES, f"GET {API}/x") == "allow read, inject token"
    assert decision_text(RULES, f"HEAD {API}/x") == "allow read, inject token"
    assert decision_text(RULES, f"POST {API}/search", headers=JSON) == "allow query, inject token"


@pytest.mark.parametrize(
    "method", ["DELETE", "PUT", "PATCH", "POST", "OPTIONS", "PROPFIND", "M-SEARCH", "QUERY", "FOO"]
)
def test_a_method_that_no_rule_names_is_denied(method: str) -> None:
    """S-17."""
    decision = ask(RULES, f"{method} {API}/x")
    assert (decision.code, decision.effects.needs) == ("rule.none", ())


@pytest.mark.parametrize(
    "method",
    [
        "get",
        "Get",
        "gET",
        "head",
        "post",
        "delete",
        "Options",
        "connect",
        "trace",
        "CONNECT",
        "TRACE",
        "Trace",
    ],
)
def test_an_odd_case_and_a_tunnel_are_refused(method: str) -> None:
    assert decision_text(RULES, f"{method} {API}/x") == "deny method.refused"


@pytest.mark.parametrize(
    "method",
    [
        "",
        "\x00GET",
        "GET\x00",
        "GET\r\nX: y",
        "GET\t/evil",
        "G\xc9T",
        "GET/",
        "G(T",
        "\u212aGET",
        "GET,POST",
        '"GET"',
    ],
)
def test_what_is_no_token_is_refused(method: str) -> None:
    asked = replace(head(f"GET {API}/x"), method=method)
    for rules in (RULES, policy("hosts: {api.example.com: {}}"), policy("mode: observe")):
        assert decide(rules, Identity("box"), asked, NOW).code == "method.refused"


@pytest.mark.parametrize(
    "name",
    sorted(
        METHOD_OVERRIDES
        | {
            "x_http_method_override",
            "x_http_method",
            "x-http_method",
            "x~http+method",
            "x.http!method*override",
        }
    ),
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_header_overrides_the_method(name: str, method: str) -> None:
    path = "/x" if method == "GET" else "/search"
    assert (
        decision_text(RULES, f"{method} {API}{path}", headers=(*JSON, (name, "DELETE")))
        == "deny method.override"
    )


@pytest.mark.parametrize(
    "query",
    [
        "_method=DELETE", "a=b&_method=DELETE", "_METHOD=DELETE", "_Method=DELETE", "%5fmethod=DELETE",
        "_%6Dethod=DELETE", "%5F%6d%65%74%68%6f%64=DELETE", "a;_method=DELETE", "_method", "_method=",
        "+_method=DELETE", "%20_method=DELETE", ".method=DELETE", "[method=DELETE", "_method%00=DELETE",
        "x-http-method-override=DELETE", "X-HTTP-Method-Override=DELETE", "b=%zz&_method=DELETE",
        "[_method]=DELETE", "%5B_method%5D=DELETE", "[[_method]]=DELETE", "_method[]=DELETE",
        "_method[a]=DELETE", "_method]=DELETE", "]_method=DELETE", "%u005fmethod=DELETE", "_%U006Dethod=D",
    ],
)  # fmt: skip
def test_no_parameter_overrides_the_method(query: str) -> None:
    assert decision_text(RULES, f"POST {API}/search?{query}", headers=JSON) == "deny method.override"


@pytest.mark.parametrize("query", ["payment_method=card", "method=a", "a=_method=DELETE"])
@pytest.mark.parametrize("name", ["access-control-request-method", "x-method", "x-http-method-overrides"])
def test_a_name_that_only_sounds_like_it_passes(query: str, name: str) -> None:
    assert (
        decision_text(RULES, f"GET {API}/x?{query}", headers=((name, "DELETE"),))
        == "allow read, inject token"
    )


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "target",
    ["/graphql", "/graphql?query=mutation%7Bx%7D", "/GraphQL", "/graphql/", "/%67raphql", "/graphql?a"],
)
def test_no_mutation_hides_behind_a_read(method: str, target: str) -> None:
    """S-59: whatever the body says, the endpoint that takes mutations is closed."""
    assert decision_text(RULES, f"{method} {API}{target}", headers=JSON) == "deny no-graphql"


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("content-type", "text/plain"),),
        (("content-type", "application/json"), ("content-type", "text/plain")),
        (("content-type", "application/json, text/plain"),),
        (("content-type", "application/jsonx"),),
        (("content-type", "application/json\x00"),),
    ],
)
def test_a_doubtful_content_type_fits_no_allow(headers: tuple[tuple[str, str], ...]) -> None:
    assert decision_text(RULES, f"POST {API}/search", headers=headers) == "deny rule.none"


@pytest.mark.parametrize(
    "sent",
    ["text/plain", "application/json, text/plain", "text/plain, application/json", "TEXT/PLAIN", "", "x"],
)
def test_a_doubtful_content_type_fits_every_deny(sent: str) -> None:
    rules = policy("hosts: {api.example.com: {allow: all, deny: [{id: no, content_type: [text/plain]}]}}")
    assert decision_text(rules, f"POST {API}/x", headers=(("content-type", sent),)) == "deny no"
    assert decision_text(rules, f"POST {API}/x", headers=JSON) == "allow host"


@pytest.mark.parametrize(
    "query",
    [
        "admin=1",
        "Admin=1",
        "a=2&admin=1",
        "admin=2&admin=1",
        "x;admin=1",
        "%61dmin=%31",
        "a=%zz",
        "ADMIN=1&admin=2",
    ],
)
def test_a_doubtful_query_fits_every_deny(query: str) -> None:
    rules = policy("hosts: {api.example.com: {allow: all, deny: [{id: no, query: {admin: '1'}}]}}")
    assert decision_text(rules, f"GET {API}/x?{query}") == "deny no"
    assert decision_text(rules, f"GET {API}/x?admin=2") == "allow host"


def test_an_upgrade_needs_a_rule_of_its_own() -> None:
    """S-25 at the rules."""
    assert decision_text(RULES, f"GET {API}/x", websocket=True) == "deny rule.websocket"
