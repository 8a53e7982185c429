"""Label selectors, evaluated on what is known of a pod before it runs.

Controllers add labels to a pod that no manifest shows. So a selector that asks for such a label may match or
not, and the answer depends on the question: a policy that opens something is taken to match, a policy that
shuts something is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum

from egress.kubernetes.manifest_node import ManifestNode


class Match(IntEnum):
    """Whether a selector selects a pod. `min` of several is the answer for all of them together."""

    NO = 0
    MAYBE = 1
    YES = 2


_GENERATED_KEYS = frozenset(
    {"pod-template-hash", "controller-revision-hash", "pod-template-generation", "job-name", "controller-uid"}
)
_GENERATED_DOMAINS = (
    "agents.x-k8s.io/",
    "apps.kubernetes.io/",
    "batch.kubernetes.io/",
    "extensions.agents.x-k8s.io/",
    "statefulset.kubernetes.io/",
)


def is_generated(key: str) -> bool:
    """Report whether controllers write this label, so that its value is not known before."""
    return key in _GENERATED_KEYS or key.startswith(_GENERATED_DOMAINS)


def match_labels(selector: ManifestNode, labels: Mapping[str, str]) -> Match:
    """Evaluate a selector; a missing or empty one selects everything."""
    answers = [Match.YES]
    for key, node in selector.at("matchLabels").entries().items():
        answers.append(_equals(labels, key, {node.text()}))
    answers += [_expression(each, labels) for each in selector.at("matchExpressions").items()]
    return min(answers)


def is_everything(selector: ManifestNode) -> bool:
    """Report whether a selector asks for nothing."""
    return not selector.at("matchLabels").entries() and not selector.at("matchExpressions").items()


def requires(selector: ManifestNode, key: str, value: str) -> bool:
    """Report whether a selector selects only what has this label with this value."""
    if selector.at("matchLabels").entries().get(key, None) is not None:
        return selector.at("matchLabels", key).text() == value
    wanted = (key, "In", (value,))
    return any(
        (each.at("key").text(), each.at("operator").text(), each.at("values").texts()) == wanted
        for each in selector.at("matchExpressions").items()
    )


def _equals(labels: Mapping[str, str], key: str, values: set[str]) -> Match:
    if key in labels:
        return Match.YES if labels[key] in values else Match.NO
    return Match.MAYBE if is_generated(key) else Match.NO


def _expression(node: ManifestNode, labels: Mapping[str, str]) -> Match:
    key = node.at("key").text()
    values = set(node.at("values").texts())
    positive: dict[str, Callable[[], Match]] = {
        "In": lambda: _equals(labels, key, values),
        "NotIn": lambda: Match(Match.YES - _equals(labels, key, values)),
        "Exists": lambda: Match.YES if key in labels else Match(int(is_generated(key))),
        "DoesNotExist": lambda: Match.NO if key in labels else Match(Match.YES - int(is_generated(key))),
    }
    # An operator that the API server does not know may mean anything.
    return positive.get(node.at("operator").text(), lambda: Match.MAYBE)()
