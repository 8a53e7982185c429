"""Calls of an API that move refs, beside rules on the refs of pushes."""

from __future__ import annotations

import pytest

from egress.rules.compile.load import RuleText, load

PUSH = '{id: push, git: {push: {repos: [acme/app], refs: ["refs/heads/agent/**"]}}}'


def warnings(api: str, *, push: str = PUSH, host: str = "github.com", deny: str = "[]") -> list[str]:
    text = f"""
version: 1
hosts:
  {host}:
    allow: [{push}]
  api.github.com:
    allow: [{api}]
    deny: {deny}
"""
    loaded = load([RuleText("hosts.yaml", text)], {}, 0)
    assert loaded.policy is not None, loaded.findings
    return [str(finding) for finding in loaded.findings if "moves refs" in finding.message]


@pytest.mark.parametrize(
    ("rule", "call"),
    [
        ('{id: all, paths: ["/**"]}', "POST /graphql"),
        ('{id: merge, methods: [PUT], paths: ["/repos/acme/app/pulls/*/merge"]}', "PUT /pulls/*/merge"),
        ('{id: file, methods: [PUT], paths: ["/repos/acme/*/contents/docs/**"]}', "PUT /contents/**"),
        ('{id: ref, methods: [PATCH], paths: ["/repos/acme/app/git/**"]}', "PATCH /git/refs/**"),
        ('{id: gql, paths: [/graphql], graphql: {mutation: ["update*"]}}', "mutation { updateRef }"),
    ],
)
def test_a_call_that_moves_refs_is_warned_of(rule: str, call: str) -> None:
    (found,) = warnings(rule)
    assert f"`{call}`" in found
    assert "github.com#push" in found


@pytest.mark.parametrize(
    "rule",
    [
        '{id: read, methods: [GET], paths: ["/**"]}',
        '{id: issues, methods: [POST], paths: ["/repos/acme/app/issues"]}',
        "{id: gql, paths: [/graphql], graphql: {query: any, mutation: [addComment]}}",
    ],
)
def test_other_calls_are_not(rule: str) -> None:
    assert warnings(rule) == []


def test_a_deny_closes_a_call() -> None:
    rule = '{id: merge, methods: [PUT], paths: ["/repos/acme/app/pulls/*/merge"]}'
    assert warnings(rule, deny='[{id: no, paths: ["/repos/*/*/pulls/*/merge"]}]') == []


def test_nothing_is_said_where_no_push_has_refs() -> None:
    fetch = '{id: clone, git: {fetch: ["acme/*"]}}'
    assert warnings('{id: all, paths: ["/**"]}', push=fetch) == []


def test_other_forges_have_one_host_for_both() -> None:
    merge = '{id: merge, methods: [PUT], paths: ["/api/v4/projects/*/merge_requests/*/merge"]}'
    (found,) = warnings("{id: none, methods: [GET], paths: [/]}", push=f"{PUSH}, {merge}", host="gitlab.com")
    assert "PUT /merge_requests/*/merge" in found


@pytest.mark.parametrize(
    ("repos", "path", "count"),
    [
        ("acme/app", "/repos/acme/app/merges", 1),
        ("acme/app", "/repos/acme/docs/merges", 0),
        ("acme/*", "/repos/acme/docs/merges", 1),
        ("acme/*", "/repos/octo/docs/merges", 0),
        ('"**"', "/repos/octo/docs/merges", 1),
        ('"acme/a%zz"', "/repos/octo/docs/merges", 1),
    ],
)
def test_calls_are_compared_by_repository(repos: str, path: str, count: int) -> None:
    push = PUSH.replace("acme/app", repos)
    assert len(warnings(f'{{id: merge, methods: [POST], paths: ["{path}"]}}', push=push)) == count


def test_every_rule_on_pushes_counts() -> None:
    other = PUSH.replace("acme/app", "octo/docs").replace("id: push", "id: other")
    (found,) = warnings(
        '{id: m, methods: [POST], paths: ["/repos/octo/docs/merges"]}', push=f"{PUSH}, {other}"
    )
    assert "github.com#other" in found
