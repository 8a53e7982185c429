"""Pods are found in every kind that makes them, and in no others silently."""

from __future__ import annotations

import pytest

from egress.kubernetes.pod_shapes import POD_FIELDS, holds_unread_pods, pod_of
from tests.unit.kubernetes.manifest_samples import Json, as_set


def wrapped(group: str, kind: str, template: Json) -> Json:
    """An object of this kind around a pod template."""
    value: Json = template
    for key in reversed(POD_FIELDS[group, kind]):
        value = {key: value}
    version = f"{group}/v1" if group else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}} | value


@pytest.mark.parametrize(("group", "kind"), [key for key in POD_FIELDS if key != ("", "Pod")])
def test_the_pod_of_every_kind_is_found(group: str, kind: str) -> None:
    template = {"metadata": {"labels": {"egress": "workload"}}, "spec": {"containers": [{"name": "c"}]}}
    manifests = as_set([wrapped(group, kind, template)])
    (pod,) = manifests.sandboxes
    assert pod.labels == {"egress": "workload"}
    assert [each.at("name").text() for each in pod.containers] == ["c"]
    assert holds_unread_pods(pod.source) is None


def test_all_kinds_of_containers_count() -> None:
    spec = {
        "containers": [{"name": "b"}],
        "initContainers": [{"name": "a"}],
        "ephemeralContainers": [{"name": "c"}],
    }
    (found,) = as_set([{"apiVersion": "v1", "kind": "Pod", "spec": spec}]).strangers
    assert [each.at("name").text() for each in found.containers] == ["a", "b", "c"]


def test_an_unknown_kind_with_containers_is_found_and_a_schema_is_not() -> None:
    template = {"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}
    (rollout,) = as_set([{"apiVersion": "argoproj.io/v1", "kind": "Rollout", **template}]).objects
    assert pod_of(rollout) is None
    unread = holds_unread_pods(rollout)
    assert unread is not None
    assert unread.path == ("spec", "template", "spec", "containers")
    schema = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **template}
    for other in (schema, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"containers": "x"}}):
        (found,) = as_set([other]).objects
        assert holds_unread_pods(found) is None
