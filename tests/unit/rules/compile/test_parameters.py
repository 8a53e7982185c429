"""Declarations of parameters, and where placeholders may stand."""

from __future__ import annotations

import pytest

from egress.rules.compile.policy_writer import as_text
from egress.rules.compile.rule_tests import run_rule_tests
from tests.unit.rules.rule_samples import NOW, errors, policy, warnings

HEAD = 'parameters: {repo: {pattern: "[a-z]+/[a-z]+"}}\n'


DENY = '{id: d, git: {fetch: ["{param.repo}"]}}'


def rule(body: str) -> str:
    return f"{HEAD}hosts: {{a.example: {{allow: [{{id: r, {body}}}]}}}}\n"


@pytest.mark.parametrize(
    "body",
    [
        'paths: ["/{param.repo}"]',
        'paths: ["/x/{param.repo}.git/**", /y]',
        'paths: ["/a-{param.repo}-b/{param.repo}"]',
        'query: {ref: "{param.repo}"}',
        'headers: {x-repo: "a{param.repo}"}',
        'git: {fetch: ["{param.repo}"]}',
        'git: {push: {repos: ["{param.repo}"], refs: ["refs/heads/x/{param.repo}/**"]}}',
    ],
)
def test_a_placeholder_stands_in_literal_positions_of_allow_rules(body: str) -> None:
    (made,) = next(iter(policy(rule(body)).entries.values())).allow
    assert made.template is not None
    assert made.template.names == {"repo"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (rule('paths: ["/{param.repo}*"]'), "wildcard stands beside"),
        (rule('paths: ["/*{param.repo}/x"]'), "wildcard stands beside"),
        (rule('query: {a: "{param.repo}*"}'), "wildcard stands beside"),
        (rule('paths: ["/{param.}"]'), "placeholder is not one"),
        (rule('git: {fetch: ["{param.repo}*"]}'), "wildcard stands beside"),
        (rule('git: {fetch: ["{param.}"]}'), "placeholder is not one"),
        (rule('git: {fetch: ["{param.repos}"]}'), "`repos` is not declared"),
        (rule('git: {push: {repos: [a], refs: ["refs/{param.repo}"]}}'), "does not say which refs"),
        (rule('git: {push: {repos: [a], refs: ["{param.repo}/heads/x"]}}'), "does not say which refs"),
        (
            rule('git: {push: {repos: [a], refs: [refs/heads/x], options: ["{param.repo}"]}}'),
            "not a push option",
        ),
        (
            f"{HEAD}hosts: {{a.example: {{allow: all, deny: [{DENY}]}}}}\n",
            "stands where none can",
        ),
        (rule('paths: ["/{param.repo"]'), "placeholder is not one"),
        (rule('paths: ["/{param.a b}"]'), "placeholder is not one"),
        (rule('paths: ["/%2{param.repo}"]'), "broken % escape"),
        (rule('paths: ["{param.repo}"]'), "must begin with a slash"),
        (rule('paths: ["/../{param.repo}"]'), "segment"),
        (rule('paths: ["/{param.repos}"]'), "`repos` is not declared"),
        (rule('paths: ["/{param.Repo}"]'), "`Repo` is not declared"),
        (rule('paths: [/x], query: {"{param.repo}": x}'), "stands where none can"),
        (rule('paths: [/x], methods: ["{param.repo}"]'), "not a method"),
        (rule('paths: [/x], content_type: ["{param.repo}/x"]'), "not a media type"),
        (f'{HEAD}hosts: {{"{{param.repo}}.example": {{}}}}\n', "not a host"),
        (
            f'{HEAD}hosts: {{a.example: {{allow: all, deny: [{{id: d, paths: ["/{{param.repo}}"]}}]}}}}\n',
            "stands where none can",
        ),
        (
            f'{HEAD}hosts: {{a.example: {{}}}}\ndeny: [{{id: d, headers: {{x: "{{param.repo}}"}}}}]\n',
            "stands where none can",
        ),
        (
            f'{HEAD}secrets: {{s: {{from: "env:{{param.repo}}", hosts: [a.example]}}}}\n',
            "environment",
        ),
        ('hosts: {a.example: {paths: ["/{param.repo}"]}}\n', "`repo` is not declared"),
    ],
)
def test_anywhere_else_it_is_an_error(text: str, said: str) -> None:
    assert any(said in line for line in errors(text)), errors(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('parameters: {1a: {pattern: "a"}}', "not the name of a parameter"),
        ('parameters: {a.b: {pattern: "a"}}', "not the name of a parameter"),
        ('parameters: {a: {pattern: ".*"}}', "without a meaning"),
        ("parameters: {a: {}}", "pattern"),
        ('parameters: {a: {pattern: "[a-z]+", default: A}}', "does not fit the pattern"),
        ('parameters: {a: {pattern: "[a-z./]+", default: "../x"}}', "cannot be used"),
        ('parameters: {a: {pattern: "a"}, A: {pattern: "a"}}', "duplicate parameter"),
        ("parameters: []", "must be a mapping"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_an_error(text: str, said: str) -> None:
    found = errors(f"{text}\nhosts: {{a.example: {{}}}}\n")
    assert any(said in line for line in found), found


def test_an_unsound_declaration_is_not_reported_a_second_time() -> None:
    found = errors('parameters: {repo: {pattern: ".*"}}\nhosts: {a.example: {paths: ["/{param.repo}"]}}\n')
    assert len(found) == 1


def test_check_warns_of_what_has_no_effect() -> None:
    (unused,) = warnings(f"{HEAD}hosts: {{a.example: {{}}}}\n")
    assert "no rule uses the parameter `repo`" in unused
    allows = '{id: wide, paths: ["/repos/**"]}, {id: narrow, paths: ["/repos/{param.repo}"]}'
    (shadowed,) = warnings(f"{HEAD}hosts: {{a.example: {{allow: [{allows}]}}}}\n")
    assert "a.example#narrow adds nothing" in shadowed
    # The other way round the wide rule adds all other values.
    allows = '{id: a, paths: ["/repos/{param.repo}"]}, {id: b, paths: ["/repos/acme/site"]}'
    assert warnings(f"{HEAD}hosts: {{a.example: {{allow: [{allows}]}}}}\n") == []


def test_two_injections_that_some_value_brings_together_are_an_error() -> None:
    text = f"""\
{HEAD}secrets:
  a: {{from: "env:A", hosts: [a.example]}}
  b: {{from: "env:B", hosts: [a.example]}}
hosts:
  a.example:
    allow:
      - {{id: one, paths: ["/repos/{{param.repo}}"]}}
      - {{id: two, paths: ["/repos/acme/site"]}}
    inject:
      - {{bearer: a, for: [one]}}
      - {{bearer: b, for: [two]}}
"""
    assert any("slot" in line or "header" in line for line in errors(text)), errors(text)
    assert errors(text.replace("/repos/acme/site", "/other")) == []


def test_tests_of_rules_have_parameters() -> None:
    rules = policy(f"""\
{HEAD}hosts:
  a.example:
    allow: [{{id: r, paths: ["/{{param.repo}}"]}}]
    tests:
      - {{request: GET /acme/site, params: {{repo: acme/site}}, expect: allow r}}
      - {{request: GET /acme/other, params: {{repo: acme/site}}, expect: deny rule.none}}
      - {{request: GET /acme/site, params: {{repo: acme}}, expect: deny parameter.refused}}
      - GET /acme/site -> deny host.closed
""")
    assert [result.problem for result in run_rule_tests(rules, NOW)] == [""] * 4


def test_the_policy_is_written_with_its_placeholders_and_reads_the_same() -> None:
    text = """\
parameters:
  repo: {pattern: "[a-z]+/[a-z]+", default: acme/site}
hosts:
  a.example:
    allow: [{id: r, paths: ["/{param.repo}/**"], query: {ref: "{param.repo}"}}]
  b.example:
    paths: ["/{param.repo}"]
"""
    written = as_text(policy(text))
    assert '"/{param.repo}/**"' in written
    again = as_text(policy(written))
    # But for the places, which stand in comments.
    assert [line.partition("#")[0] for line in again.splitlines()] == [
        line.partition("#")[0] for line in written.splitlines()
    ]


def test_a_value_is_put_into_the_repositories_and_refs_of_git() -> None:
    text = f"""{HEAD}
hosts:
  a.example:
    allow:
      - {{id: clone, git: {{fetch: ["{{param.repo}}"]}}}}
      - {{id: push, git: {{push: {{repos: ["{{param.repo}}"], refs: ["refs/heads/{{param.repo}}/**"]}}}}}}
    tests:
      - {{git: fetch acme/app, params: {{repo: acme/app}}, expect: allow clone}}
      - {{git: fetch acme/app2, params: {{repo: acme/app}}, expect: deny git.repository}}
      - {{git: fetch acme/app, expect: deny host.closed}}
      - {{git: push acme/app create refs/heads/acme/app/x, params: {{repo: acme/app}}, expect: allow push}}
      - {{git: push acme/app create refs/heads/main, params: {{repo: acme/app}}, expect: deny git.ref}}
      - {{git: push a/b refs/heads/acme/app/x, params: {{repo: acme/app}}, expect: deny git.repository}}
"""
    made = policy(text)
    assert [result.problem for result in run_rule_tests(made, NOW) if result.problem] == []
    assert "refs/heads/{param.repo}/**" in as_text(made)
