"""The values of a sandbox: which rules they make, and when they deny everything."""

from __future__ import annotations

import pytest

from egress.rules.decide import parameters
from egress.rules.decide.decision import decide, decide_host
from egress.rules.decide.explain import explain
from egress.rules.decide.parameters import parameter_fault
from egress.types import Head, Identity, Parameters
from tests.unit.rules.rule_samples import NOW, policy

RULES = policy("""\
parameters:
  repo: {pattern: "acme/[a-z0-9._-]+"}
  kind: {pattern: "[a-z]+", default: pulls}
secrets:
  token: {from: "env:T", hosts: [api.example]}
hosts:
  api.example:
    allow:
      - {id: repo, methods: [GET], paths: ["/repos/{param.repo}", "/repos/{param.repo}/{param.kind}/*"]}
      - {id: head, paths: [/head], headers: {x-repo: "repo={param.repo}"}}
      - {id: query, paths: [/query], query: {repo: "{param.repo}"}}
      - {id: open, paths: [/open]}
    inject: [{bearer: token, for: [repo]}]
  only.example:
    paths: ["/{param.repo}/**"]
  other.example: {}
""")
SITE = (("repo", "acme/site"),)


def asked(
    given: Parameters, target: str, host: str = "api.example", headers: tuple[tuple[str, str], ...] = ()
) -> str:
    head = Head("GET", "https", host, 443, target, headers)
    decision = decide(RULES, Identity("box", None, given), head, NOW)
    return decision.rule.id if decision.allowed and decision.rule else decision.code


def test_a_value_opens_its_paths_and_no_others() -> None:
    assert asked(SITE, "/repos/acme/site") == "repo"
    assert asked(SITE, "/repos/acme/site/pulls/7") == "repo"
    assert asked((*SITE, ("kind", "issues")), "/repos/acme/site/issues/7") == "repo"
    for target in ["/repos/acme/other", "/repos/acme", "/repos/acme/site2", "/repos/acme/site/issues/7"]:
        assert asked(SITE, target) == "rule.none"
    assert asked(SITE, "/repos/Acme/site") == "rule.none"
    assert asked(SITE, "/repos/acme%2Fsite") == "path.ambiguous"
    assert asked(SITE, "/repos/acme/sit%65") == "repo"


def test_a_value_is_a_literal_of_headers_and_query() -> None:
    assert asked(SITE, "/head", headers=(("x-repo", "repo=acme/site"),)) == "head"
    assert asked(SITE, "/head", headers=(("x-repo", "repo=acme/other"),)) == "rule.none"
    assert asked(SITE, "/query?repo=acme%2Fsite") == "query"
    assert asked(SITE, "/query?repo=acme/other") == "rule.none"
    assert asked(SITE, "/query?repo=acme/site&repo=acme/other") == "rule.none"


def test_without_a_value_no_rule_that_needs_it_matches() -> None:
    assert asked((), "/repos/acme/site") == "rule.none"
    assert asked((), "/repos/{param.repo}") == "rule.none"
    assert asked((), "/open") == "open"
    # A host whose every rule needs a value is closed to others before its name is resolved.
    assert asked((), "/acme/site/x", "only.example") == "host.closed"
    assert asked(SITE, "/acme/site/x", "only.example") == "host"
    assert not decide_host(RULES, Identity("box"), "only.example", 443, NOW).allowed
    assert decide_host(RULES, Identity("box", None, SITE), "only.example", 443, NOW).allowed


def test_effects_of_a_rule_with_a_value_are_those_of_the_rule() -> None:
    head = Head("GET", "https", "api.example", 443, "/repos/acme/site")
    decision = decide(RULES, Identity("box", None, SITE), head, NOW)
    assert [need.secret for need in decision.effects.needs] == ["token"]
    answer = explain(RULES, Identity("box", None, SITE), head, NOW)
    assert [item.ref.id for item in answer.considered if item.fits] == ["repo"]


@pytest.mark.parametrize(
    "given",
    [
        (("repo", "other/site"),),
        (("repo", "acme/.."),),
        (("repo", "acme/site/"),),
        (("repo", "acme/a%2fb"),),
        (("repo", ""),),
        (("repo", "acme/*"),),
        (("Repo", "acme/site"),),
        (("unknown", "x"),),
        (*SITE, ("kind", "7")),
    ],
)
def test_a_value_that_is_refused_denies_everything(given: Parameters) -> None:
    for host, target in [
        ("api.example", "/open"),
        ("api.example", "/repos/acme/site"),
        ("other.example", "/"),
    ]:
        assert asked(given, target, host) == "parameter.refused"
        found = decide_host(RULES, Identity("box", None, given), host, 443, NOW)
        assert (found.allowed, found.code) == (False, "parameter.refused")
    fault = parameter_fault(RULES, given)
    assert fault
    assert all(value not in fault for _, value in given if len(value) > 2)
    # The twin: without the value the same sandbox is served.
    assert asked((), "/", "other.example") == "host"


def test_a_refused_value_denies_also_where_the_rules_observe() -> None:
    rules = policy("mode: observe\nhosts: {a.example: {}}\n")
    head = Head("GET", "https", "unknown.example", 443, "/")
    assert decide(rules, Identity("box"), head, NOW).allowed
    assert decide(rules, Identity("box", None, SITE), head, NOW).code == "parameter.refused"


def test_sandboxes_with_the_same_values_share_a_route_and_caches_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parameters, "MAX_CACHED_SETS", 8)
    RULES.filled_routes.clear()
    for number in range(5):
        assert asked((*SITE, ("kind", "abcde"[number])), "/open") == "open"
    for _ in range(3):
        assert asked(SITE, "/open") == "open"
    assert len(RULES.filled_routes) == 6
    for number in range(50):
        assert asked((("repo", f"acme/r{number}"),), f"/repos/acme/r{number}") == "repo"
        assert asked((("repo", f"acme/r{number}"),), "/repos/acme/site") == "rule.none"
    assert len(RULES.filled_routes) <= 8
    assert len(RULES.parameter_values) <= 8
