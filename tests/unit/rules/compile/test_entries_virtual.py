"""Handlers and hosts without an upstream, as a rule file says them."""

from __future__ import annotations

import pytest

from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import as_text
from egress.rules.decide.decision import decide, decide_host
from egress.types import HandlerUse, Head, Identity
from tests.unit.rules.rule_samples import NOW, policy

RULES = """
version: 1
hosts:
  api.example.com:
    handler: {use: every, with: {b: [1, true, 1.5], a: {c: x}}}
    allow:
      - {id: read, methods: [GET]}
      - {id: write, methods: [POST], handler: {use: writes}}
  kv.internal: {virtual: true}
  strict.internal: {virtual: true, http: [], ports: [8443]}
"""
BOX = Identity("box")


def head(method: str, host: str = "api.example.com", scheme: str = "https", port: int = 443) -> Head:
    return Head(method, "http" if scheme == "http" else "https", host, port, "/", ())


def test_the_handler_of_a_rule_takes_the_place_of_the_hosts() -> None:
    found = policy(RULES)
    (read,) = decide(found, BOX, head("GET"), NOW).effects.handlers
    assert read == HandlerUse("every", '{"a": {"c": "x"}, "b": [1, true, 1.5]}')
    assert decide(found, BOX, head("POST"), NOW).effects.handlers == (HandlerUse("writes"),)


def test_a_virtual_host_is_open_in_clear_text_unless_it_says_otherwise() -> None:
    found = policy(RULES)
    assert decide_host(found, BOX, "kv.internal", 80, NOW, scheme="http").allowed
    assert decide_host(found, BOX, "kv.internal", 443, NOW).allowed
    assert decide(found, BOX, head("GET", "kv.internal", "http", 80), NOW).effects.is_virtual
    assert decide_host(found, BOX, "strict.internal", 80, NOW, scheme="http").code == "host.cleartext"
    assert decide_host(found, BOX, "strict.internal", 8443, NOW).allowed
    assert decide_host(found, BOX, "api.example.com", 80, NOW, scheme="http").code == "host.cleartext"


def test_a_policy_is_written_with_its_handlers() -> None:
    found = policy(RULES)
    again = policy(as_text(found))
    for method in ("GET", "POST"):
        before, after = (decide(each, BOX, head(method), NOW).effects.handlers for each in (found, again))
        assert before == after
    assert decide_host(again, BOX, "strict.internal", 80, NOW, scheme="http").code == "host.cleartext"
    assert decide(again, BOX, head("GET", "kv.internal", "http", 80), NOW).effects.is_virtual


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{virtual: true, allow: all, inject: [{bearer: api}]}", "`inject` has no effect"),
        ("{virtual: true, addresses: [10.0.0.0/8]}", "`addresses` has no effect"),
        ("{virtual: true, redirects: deny}", "`redirects` has no effect"),
        ("{virtual: true, mode: observe}", "`mode` has no effect"),
        ("{virtual: true, intercept: never}", "`virtual` has no effect"),
        ("{intercept: never, handler: {use: kv}}", "`handler` has no effect"),
        ("{handler: {use: a b}}", "is not the name of a handler"),
        ("{handler: {with: {}}}", "use"),
        ("{handler: {use: kv, params: {}}}", "params"),
        ("{allow: [{id: a, handler: kv}]}", "must be a mapping"),
        ("{deny: [{id: a, methods: [GET], handler: {use: kv}}], allow: all}", "handler"),
        (f"{{handler: {{use: kv, with: {{a: {'x' * 17_000}}}}}}}", "have more than 16384 characters"),
    ],
)
def test_mistakes_are_told(entry: str, said: str) -> None:
    text = (
        "version: 1\n"
        'secrets: {api: {from: "env:API", hosts: [kv.internal]}}\n'
        f"hosts:\n  kv.internal: {entry}\n"
    )
    found = load([RuleText("hosts.yaml", text)], {}, NOW)
    assert found.policy is None
    assert any(said in str(finding) + finding.hint for finding in found.findings), found.findings
