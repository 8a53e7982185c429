"""Pods are sorted by their labels, and the proxy is known by its label and services."""

from __future__ import annotations

from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_set import PodLabels, has_label
from egress.rules.language.document import Value
from tests.unit.kubernetes.manifest_samples import agent_sandboxes, as_set, part, shipped


def selector(value: Value) -> ManifestNode:
    return ManifestNode(value, (), [])


def test_pods_are_sandboxes_proxies_or_strangers() -> None:
    objects = shipped()
    objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": {}})
    found = as_set(objects)
    titles = [[pod.source.name for pod in pods] for pods in (found.sandboxes, found.proxies, found.strangers)]
    assert titles == [["workload"], ["egress-proxy"], ["other"]]


def test_a_pod_of_agent_sandbox_is_a_sandbox_whatever_its_labels_say() -> None:
    objects = agent_sandboxes()
    part(objects, "SandboxTemplate")["spec"]["podTemplate"]["metadata"]["labels"] = {"app": "egress-proxy"}
    assert [pod.source.name for pod in as_set(objects).sandboxes] == ["python"]


def test_other_labels_can_be_named() -> None:
    labels = PodLabels(sandbox=("app", "egress-proxy"), proxy=("egress", "workload"))
    found = as_set(shipped(), labels)
    assert [pod.source.name for pod in found.sandboxes] == ["egress-proxy"]
    assert has_label({"a": "b"}, ("a", "b"))
    assert not has_label({"a": "c"}, ("a", "b"))


def test_the_addresses_of_the_proxy_are_those_of_its_services() -> None:
    assert as_set(shipped()).proxy_addresses("agents") == {"10.96.0.92"}
    assert as_set(shipped()).proxy_addresses("other") == set()


def test_a_namespace_of_the_proxy_is_named_and_not_described() -> None:
    found = as_set(shipped())
    key = "kubernetes.io/metadata.name"
    assert found.is_proxy_namespace(selector({"matchLabels": {key: "agents"}}), "sandboxes")
    assert found.is_proxy_namespace(selector({"matchLabels": {key: "own"}}), "own")
    assert not found.is_proxy_namespace(selector({"matchLabels": {key: "other"}}), "own")
    assert not found.is_proxy_namespace(selector({}), "own")
    assert found.selects_the_proxy_alone(selector({"matchLabels": {"app": "egress-proxy", "x": "y"}}))
    assert not found.selects_the_proxy_alone(selector({}))
