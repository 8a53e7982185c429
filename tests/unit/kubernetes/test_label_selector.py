"""Selectors on labels, of which some are known only later."""

from __future__ import annotations

import pytest

from egress.kubernetes.label_selector import Match, is_everything, is_generated, match_labels, requires
from egress.kubernetes.manifest_node import ManifestNode
from egress.rules.language.document import Value

YES, MAYBE, NO = Match.YES, Match.MAYBE, Match.NO
LABELS = {"app": "a", "tier": "x"}


def selector(value: Value) -> ManifestNode:
    return ManifestNode(value, (), [])


def expression(key: str, operator: str, *values: str) -> Value:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ({}, YES),
        ({"matchLabels": {"app": "a"}}, YES),
        ({"matchLabels": {"app": "b"}}, NO),
        ({"matchLabels": {"app": "a", "other": "a"}}, NO),
        ({"matchLabels": {"pod-template-hash": "a"}}, MAYBE),
        ({"matchLabels": {"pod-template-hash": "a", "app": "b"}}, NO),
        (expression("app", "In", "a", "b"), YES),
        (expression("app", "In", "b"), NO),
        (expression("app", "NotIn", "a"), NO),
        (expression("none", "NotIn", "a"), YES),
        (expression("job-name", "NotIn", "a"), MAYBE),
        (expression("app", "Exists"), YES),
        (expression("none", "Exists"), NO),
        (expression("batch.kubernetes.io/job-name", "Exists"), MAYBE),
        (expression("app", "DoesNotExist"), NO),
        (expression("none", "DoesNotExist"), YES),
        (expression("agents.x-k8s.io/claim-uid", "DoesNotExist"), MAYBE),
        (expression("app", "Near", "a"), MAYBE),
    ],
)
def test_a_selector_matches_does_not_or_may(value: Value, match: Match) -> None:
    assert match_labels(selector(value), LABELS) is match


def test_a_selector_that_asks_for_nothing_selects_everything() -> None:
    assert is_everything(selector({}))
    assert is_everything(selector({"matchLabels": {}, "matchExpressions": []}))
    assert not is_everything(selector(expression("app", "Exists")))


def test_a_label_is_required_by_equality_alone() -> None:
    assert requires(selector({"matchLabels": {"app": "a"}}), "app", "a")
    assert requires(selector(expression("app", "In", "a")), "app", "a")
    others: list[Value] = [
        {},
        {"matchLabels": {"app": "b"}},
        expression("app", "In", "a", "b"),
        expression("app", "Exists"),
    ]
    for value in others:
        assert not requires(selector(value), "app", "a")


def test_labels_of_controllers_are_known_by_their_keys() -> None:
    assert is_generated("agents.x-k8s.io/sandbox-name-hash")
    assert not is_generated("egress")
