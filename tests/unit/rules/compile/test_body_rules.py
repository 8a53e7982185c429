"""Rules on bodies beside others: a claim that leaves a plain rule idle is told."""

from __future__ import annotations

import pytest

from egress.rules.compile.load import RuleText, load

CLAIM = "{id: gql, paths: [/graphql, '/api/**'], graphql: {query: any}}"


def findings(*rules: str) -> list[str]:
    listed = "".join(f"\n      - {rule}" for rule in rules)
    text = f"version: 1\nhosts:\n  api.example.test:\n    allow:{listed}\n"
    return [finding.message for finding in load([RuleText("hosts.yaml", text)], {}, 0).findings]


@pytest.mark.parametrize("paths", ["[/graphql]", "[/api/x, /graphql]", "['/api/**']"])
def test_a_plain_rule_below_a_claim_never_acts(paths: str) -> None:
    (found,) = findings(f"{{id: plain, paths: {paths}}}", CLAIM)
    assert "api.example.test#plain can never allow anything" in found


@pytest.mark.parametrize("paths", ["['/**']", "[/other, /graphql]"])
def test_a_plain_rule_with_other_paths_acts(paths: str) -> None:
    assert not findings(f"{{id: plain, paths: {paths}}}", CLAIM)


def test_a_rule_on_bodies_below_a_wider_rule_is_not_called_useless() -> None:
    assert not findings("{id: all}", "{id: gql, paths: [/graphql], graphql: {query: any}}")


def test_two_rules_on_one_body_are_not_duplicates() -> None:
    assert not findings(CLAIM, "{id: more, paths: [/graphql], graphql: {mutation: any}}")
