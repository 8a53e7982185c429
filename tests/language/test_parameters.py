"""Lines 43 and 44: parameters, and the placeholders that stand for their values."""

from __future__ import annotations

from egress.rules.decide.decision import decide
from egress.types import Head, Identity, Parameters
from tests.unit.rules.rule_samples import NOW, errors, policy

RULES = """\
parameters:
  repo: {pattern: "acme/[a-z]+"}
  tag: {pattern: "v[0-9]", default: v1}
hosts:
  a.example:
    allow: [{id: r, paths: ["/{param.repo}/{param.tag}"]}, {id: all, paths: [/all]}]
  b.example: {paths: ["/{param.repo}"]}
"""


def code(given: Parameters, target: str, host: str = "a.example") -> str:
    decision = decide(
        policy(RULES), Identity("box", None, given), Head("GET", "https", host, 443, target), NOW
    )
    return decision.rule.id if decision.allowed and decision.rule else decision.code


def test_43_a_value_fits_its_pattern_or_denies_everything() -> None:
    assert code((("repo", "acme/site"),), "/acme/site/v1") == "r"
    assert code((("repo", "acme/site"), ("tag", "v2")), "/acme/site/v2") == "r"
    for given in [(("repo", "acme/site2"),), (("repo", "acme/site/"),), (("tag", "v22"),), (("other", "x"),)]:
        assert code(given, "/all") == "parameter.refused"
    assert code((), "/all") == "all"


def test_44_a_placeholder_is_a_literal_of_allow_rules_alone() -> None:
    assert code((("repo", "acme/site"),), "/acme/other/v1") == "rule.none"
    assert code((), "/acme/site/v1") == "rule.none"
    assert code((), "/acme/site", "b.example") == "host.closed"
    deny = "hosts: {a.example: {allow: all, deny: [{id: d, paths: ['/{param.repo}']}]}}"
    assert any(
        "stands where none can" in line for line in errors(f"parameters: {{repo: {{pattern: a}}}}\n{deny}")
    )
