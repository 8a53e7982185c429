"""The key `scope`: what is compiled, and a hint that helps where an id is wrong."""

from __future__ import annotations

import pytest

from egress.rules.compile.asked_body import decide_whole, graphql_body
from egress.rules.decide.github_scope import GithubScope
from egress.rules.decide.graphql_predicate import GraphqlPredicate
from egress.rules.decide.name_glob import NameGlob
from egress.types import Head, Identity
from tests.unit.rules.rule_samples import NOW, errors, policy

RULE = "hosts: {a.example: {allow: [{id: r, paths: [/g], graphql: {query: any, scope: SCOPE}}]}}"


def compiled(scope: str) -> GithubScope | None:
    (entry,) = policy(RULE.replace("SCOPE", scope)).entries.values()
    body = entry.allow[0].predicates.body
    assert isinstance(body, GraphqlPredicate)
    return body.scope


@pytest.mark.parametrize("written", ["R_kgDOABPHjQ", "MDEwOlJlcG9zaXRvcnkxMjk2MjY5"])
def test_an_id_of_either_form_is_the_number_of_a_repository(written: str) -> None:
    made = compiled(f"{{github: [acme/app, 'acme/d*'], ids: ['acme/app={written}']}}")
    assert made == GithubScope((NameGlob("acme/app"), NameGlob("acme/d*")), (("acme/app", 1296269, written),))


@pytest.mark.parametrize(
    "name", ["acme", "acme/", "/app", "acme/app/x", "a b/c", "acme/**", "a/b.git c", "a/{x}"]
)
def test_what_names_no_repository_is_refused(name: str) -> None:
    assert any(
        "is not the name of a repository" in line
        for line in errors(RULE.replace("SCOPE", f"{{github: ['{name}']}}"))
    )


def test_the_hint_says_where_an_id_comes_from() -> None:
    (line,) = errors(RULE.replace("SCOPE", "{github: [acme/app], ids: [acme/app=PVT_kwDOABPHjQE]}"))
    assert "does not tell its repository" in line
    assert "`gh api repos/acme/app -q .node_id` prints it" in line


def test_each_sandbox_has_its_own_repository_by_a_parameter() -> None:
    text = RULE.replace("SCOPE", "{github: ['{param.repo}', 'shared/{param.name}']}")
    rules = policy(f"{text}\nparameters: {{repo: {{pattern: 'acme/[a-z]+'}}, name: {{pattern: '[a-z]+'}}}}")
    document = '{repository(owner:"%s",name:"%s"){id}}'
    for owner, name, is_allowed in (("acme", "app", True), ("acme", "docs", False), ("shared", "x", True)):
        head = Head("POST", "https", "a.example", 443, "/g", (("content-type", "application/json"),))
        body = graphql_body(document % (owner, name))
        sandbox = Identity("one", parameters=(("name", "x"), ("repo", "acme/app")))
        assert decide_whole(rules, sandbox, head, NOW, body)[0].allowed is is_allowed
        assert not decide_whole(rules, Identity("two"), head, NOW, body)[0].allowed


def test_a_wildcard_beside_a_placeholder_is_refused() -> None:
    found = errors(
        RULE.replace("SCOPE", "{github: ['a*/{param.name}']}") + "\nparameters: {name: {pattern: x}}"
    )
    assert any("a wildcard stands beside a placeholder" in line for line in found), found
