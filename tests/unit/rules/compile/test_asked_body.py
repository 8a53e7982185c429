"""Bodies of requests that somebody asks about: in tests of a rule file."""

from __future__ import annotations

import pytest

from egress.rules.compile.asked_body import graphql_body, json_body, with_json_type
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.rule_tests import run_rule_tests


def test_bodies_are_json_in_utf8() -> None:
    assert graphql_body('{a(b: "é")}') == '{"query": "{a(b: \\"é\\")}"}'.encode()
    assert json_body([{"a": 1}]) == b'[{"a": 1}]'
    assert with_json_type((("content-type", "text/plain"),)) == (("content-type", "text/plain"),)


@pytest.mark.parametrize(
    ("body", "expect", "problem"),
    [
        ('graphql: "{viewer{a}}"', "allow gql", False),
        ('graphql: "mutation{x}"', "deny graphql.field", False),
        ('graphql: "mutation{x}"', "allow gql", True),
        ('body: {query: "{viewer{a}}", variables: {a: 1}}', "allow gql", False),
        ('body: [{query: "{viewer{a}}"}]', "deny graphql.batch", False),
        ("raw: '{\"query\": 1}', headers: {content-type: application/json}", "deny graphql.envelope", False),
        ("raw: '{}'", "deny body.type", False),
        ("headers: {}", "deny body.type", False),
    ],
)
def test_a_test_of_a_rule_file_has_a_body(body: str, expect: str, problem: bool) -> None:
    text = f"""
version: 1
hosts:
  api.example.test:
    allow:
      - {{id: gql, paths: [/graphql], graphql: {{query: [viewer]}}}}
    tests:
      - {{request: "POST /graphql", {body}, expect: "{expect}"}}
"""
    loaded = load([RuleText("hosts.yaml", text)], {}, None)
    assert loaded.policy is not None, loaded.findings
    (result,) = run_rule_tests(loaded.policy, 0)
    assert bool(result.problem) is problem, result.problem


def test_a_test_has_one_body() -> None:
    text = """
version: 1
hosts: {api.example.test: {}}
tests:
  - {request: "POST https://api.example.test/", body: {}, raw: "", expect: allow}
"""
    (found,) = load([RuleText("hosts.yaml", text)], {}, None).findings
    assert found.message == "`raw` cannot be combined with `body`"
