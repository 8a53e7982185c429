"""Tests beside the rules: URLs taken apart, and what a failed test says."""

from __future__ import annotations

import textwrap

import pytest

from egress.rules.compile.rule_tests import ParsedUrl, describe_decision, head_of, parse_url, run_rule_tests
from egress.rules.language.report import MeaningError
from tests.unit.rules.rule_samples import NOW, ask, errors, policy


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://a.example", ParsedUrl("https", "a.example", 443, "/")),
        ("http://a.example/", ParsedUrl("http", "a.example", 80, "/")),
        ("https://A.Example.:8443/x?y#", ParsedUrl("https", "a.example", 8443, "/x?y#")),
        ("https://bücher.example/é", ParsedUrl("https", "xn--bcher-kva.example", 443, "/é")),
        ("https://10.0.0.1/", ParsedUrl("https", "10.0.0.1", 443, "/")),
        ("https://[fd00::1]:8443/", ParsedUrl("https", "fd00::1", 8443, "/")),
        ("https://a.example/../%2e", ParsedUrl("https", "a.example", 443, "/../%2e")),
    ],
)
def test_takes_a_url_apart_and_leaves_its_path(text: str, url: ParsedUrl) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "", "a.example", "ftp://a.example/", "https://", "https:///x", "https://a b/", "https://u@a.example/",
        "https://a.example:65536/", "https://a.example:0/", "https://a.example:x/", "https://a.example?x",
        "https://a#b/", "https://a?b/", "https://a\tb/",
        "https://[::1", "https://[FD00::1]/", "https://010.0.0.1/", "https://a.1/", "https://a.example/ b",
    ],
)  # fmt: skip
def test_refuses_what_is_no_full_url(text: str) -> None:
    with pytest.raises(MeaningError):
        parse_url(text)


def test_the_head_of_a_test_is_what_would_come_off_the_wire() -> None:
    rules = policy("""
        hosts: {a.example: {websocket: true}}
        tests: [{request: "PUT https://A.example/é?q=ü", expect: allow, headers: {X-A: "ö"}, websocket: true}]
    """)
    head = head_of(rules.cases[0])
    assert (head.method, head.host, head.websocket) == ("PUT", "a.example", True)
    assert head.target == "/é?q=ü".encode().decode("latin-1")
    assert head.headers == (("x-a", "ö".encode().decode("latin-1")),)
    assert [result.problem for result in run_rule_tests(rules, NOW)] == [""]


RULES = """
secrets: {s1_a-b: {from: "env:S", hosts: [a.example]}}
hosts:
  a.example:
    allow: [{id: r2-d, methods: [GET]}]
    inject: [{bearer: s1_a-b}]
"""


def problems(test: str) -> list[str]:
    return [result.problem for result in run_rule_tests(policy(f"{RULES}tests: [{test}]\n"), NOW)]


@pytest.mark.parametrize(
    "test",
    [
        "'GET https://a.example/ -> allow r2-d, inject s1_a-b'",
        "'  GET   https://a.example/   ->   allow   r2-d,inject   s1_a-b  '",
        "'GET https://a.example/ ->  \tallow r2-d,   inject s1_a-b'",
        "{request: '  GET   https://a.example/  ', expect: '  allow r2-d, inject s1_a-b  '}",
    ],
)
def test_blanks_between_the_words_of_a_test_do_not_count(test: str) -> None:
    assert problems(test) == [""]


@pytest.mark.parametrize(
    "test",
    [
        "'GET https://a.example/ ->allow'",
        '"GET https://a.example/ -> deny\\nwhatever"',
        "{request: 'GET https://a.example/ x', expect: allow}",
        "'GET https://a.example/ -> allow, inject 1x'",
        "'GET https://a.example/ -> allow, inject'",
    ],
)
def test_what_is_no_test_is_refused(test: str) -> None:
    assert len(errors(f"{RULES}tests: [{test}]\n")) == 1


@pytest.mark.parametrize("expected", ["X", "r2-d", "rule.denied"])
def test_a_deny_of_another_name_than_the_expected_fails(expected: str) -> None:
    assert problems(f"'GET https://b.example/ -> deny {expected}'") == ["the decision is deny host.unknown"]


def test_a_deny_may_be_expected_by_any_code() -> None:
    assert problems("'GET https://b.example/ -> deny host.unknown'") == [""]
    assert problems("'GET https://b.example/ -> deny limit.request_body'") == [
        "the decision is deny host.unknown"
    ]


def test_an_allow_of_another_name_than_the_expected_fails_when_it_is_run() -> None:
    (problem,) = problems("'GET https://a.example/ -> allow no.such, inject s1_a-b'")
    assert problem == "the decision is allow r2-d, inject s1_a-b"


@pytest.mark.parametrize("port", [1, 65535])
def test_takes_any_port_there_is(port: int) -> None:
    assert parse_url(f"https://a.example:{port}/").port == port


def test_says_an_outcome_in_the_words_of_a_test() -> None:
    rules = policy("""
        mode: observe
        secrets: {one: {from: "env:ONE", hosts: [a.example]}}
        hosts:
          a.example:
            allow: [{id: it, methods: [GET]}]
            inject: [{bearer: one}, {query: {name: k, secret: one}}]
    """)
    assert describe_decision(ask(rules, "GET https://a.example/")) == "allow it, inject one"
    assert describe_decision(ask(rules, "PUT https://a.example/")) == "deny rule.none"
    assert describe_decision(ask(rules, "PUT https://b.example/")) == "allow observed"


def test_tests_of_one_path_are_told_apart_by_their_messages() -> None:
    rules = """
        hosts:
          a.example:
            allow: [{id: m, paths: [/mcp], mcp: {tools: [x]}}]
            tests:
              - {request: POST /mcp, mcp: tools/list, expect: allow m}
              - {request: POST /mcp, mcp: call y, expect: deny mcp.tool}
              - {request: GET /, expect: deny}
              - request: POST /mcp
                graphql: "{ one two three four five six seven eight nine ten eleven twelve }"
                expect: deny
    """
    assert [result.case.text for result in run_rule_tests(policy(textwrap.dedent(rules)), NOW)] == [
        "POST /mcp tools/list -> allow m",
        "POST /mcp call y -> deny mcp.tool",
        "GET / -> deny",
        "POST /mcp { one two three four five six seven eight nine ten eleven t… -> deny",
    ]
