"""The key `git` of a rule: its mistakes are named, and a sound one is written as it was read."""

from __future__ import annotations

import pytest

from egress.rules.compile.git_rules import GIT_PATHS
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import rule_fields
from egress.rules.decide.entry import Rule

START = """
version: 1
hosts:
  git.example.test:
    allow:
      - {{id: a, {}}}
    deny:
      - {{id: b, {}}}
"""
FINE = "git: {fetch: [acme/app]}"
NO = "paths: [/no]"


def loaded(allow: str = FINE, deny: str = NO) -> tuple[list[str], list[Rule]]:
    made = load([RuleText("hosts.yaml", START.format(allow, deny))], {}, 0)
    entries = list(made.policy.entries.values()) if made.policy is not None else []
    return [finding.message for finding in made.findings], [rule for each in entries for rule in each.allow]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("git: {}", "`git` needs `fetch`, `push` or both"),
        ("git: {fetch: []}", "an empty list matches nothing"),
        ("git: {fetch: [acme/app.git]}", "names are compared without .git"),
        ("git: {fetch: [/acme/app]}", "is not the path of a repository"),
        ("git: {fetch: [acme//app]}", "is not the path of a repository"),
        ("git: {fetch: ['acme/**x']}", "** must be a whole segment"),
        ("git: {push: {repos: [acme/app]}}", "refs"),
        ("git: {push: {refs: ['refs/heads/**']}}", "repos"),
        ("git: {push: {repos: [acme/app], refs: [main]}}", "`main` does not say which refs"),
        ("git: {push: {repos: [acme/app], refs: ['refs/**']}}", "does not say which refs"),
        ("git: {push: {repos: [acme/app], refs: ['refs/*/x']}}", "does not say which refs"),
        ("git: {push: {repos: [acme/app], refs: ['refs/heads/a..b']}}", "git allows no such name"),
        ("git: {push: {repos: [acme/app], refs: ['refs/heads/a**']}}", "** must be a whole segment"),
        ("git: {push: {repos: [a/b], refs: ['refs/heads/x'], options: ['']}}", "is not a push option"),
        ("git: {push: {repos: [a/b], refs: ['refs/heads/x'], update: force}}", "`force` is not one of"),
        ("paths: [/x], git: {fetch: [acme/app]}", "`paths` cannot be combined with `git`"),
        ("methods: [GET], git: {fetch: [acme/app]}", "`methods` cannot be combined with `git`"),
        ("query: {a: b}, git: {fetch: [acme/app]}", "`query` cannot be combined with `git`"),
        ("websocket: true, git: {fetch: [acme/app]}", "`websocket` cannot be combined with `git`"),
        ("git: {fetch: [a/b]}, graphql: {query: any}", "`git` cannot be combined with `graphql`"),
    ],
)
def test_names_the_mistake(rule: str, message: str) -> None:
    found, rules = loaded(rule)
    assert [text for text in found if message in text], found
    assert not rules


def test_a_deny_of_pushes_says_which() -> None:
    found, _ = loaded(deny="git: {push: {}}")
    assert found == ["a deny of pushes needs `repos`, `refs` or `options`"]
    assert loaded(deny="git: {push: {refs: [refs/heads/main]}}")[0] == []


@pytest.mark.parametrize(
    "rule",
    [
        FINE,
        "git: {push: {repos: ['acme/*'], refs: ['refs/heads/agent/**', 'refs/tags/v*'], options: [ci.skip]}}",
        "git: {push: {repos: [a], refs: [refs/for/main], create: false, update: any, delete: true}}",
    ],
)
def test_a_sound_rule_is_written_as_it_was_read(rule: str) -> None:
    found, (made,) = loaded(rule)
    assert found == []
    fields = rule_fields(made)
    assert set(fields) == {"id", "git"}
    assert made.predicates.paths == GIT_PATHS
    again = f"git: {str(fields['git']).replace('True', 'true').replace('False', 'false')}"
    assert rule_fields(loaded(again)[1][0]) == fields
