"""What a pod shares: tests/unit/kubernetes/test_manifest_check.py has every weakness."""

from __future__ import annotations

from egress.kubernetes.pod_check import check_pod
from tests.unit.kubernetes.manifest_samples import Json, agent_sandboxes, as_set, part, pod, shipped


def found(objects: list[Json]) -> set[str]:
    manifests = as_set(objects)
    return {each.code for each in check_pod(manifests, manifests.sandboxes[0])}


def test_without_the_service_the_gate_says_where_the_proxy_is() -> None:
    objects = shipped()
    objects.remove(part(objects, "Service"))
    assert found(objects) == set()
    pod(objects)["dnsConfig"] = {"nameservers": ["10.96.0.10"]}
    assert found(objects) == {"pod.dns"}


def test_a_flag_that_is_no_boolean_counts_as_set() -> None:
    objects = shipped()
    pod(objects)["hostNetwork"] = "false"
    assert found(objects) == {"pod.host-network"}
    pod(objects)["hostNetwork"] = False
    assert found(objects) == set()


def test_volumes_that_bring_nothing_secret_are_fine() -> None:
    objects = shipped()
    pod(objects)["volumes"] += [
        {"name": "a", "persistentVolumeClaim": {"claimName": "own"}},
        {"name": "b", "projected": {"sources": [{"configMap": {"name": "c"}}]}},
        {"name": "c", "csi": {"driver": "ebs.csi.aws.com"}},
    ]
    assert found(objects) == set()


def test_a_pod_of_agent_sandbox_needs_the_label_that_the_proxy_admits() -> None:
    objects = agent_sandboxes()
    part(objects, "SandboxTemplate")["spec"]["podTemplate"]["metadata"] = {}
    assert found(objects) == {"label.missing"}


def test_the_volume_of_a_replica_is_not_for_a_sandbox() -> None:
    objects = shipped()
    volume = {"name": "a", "persistentVolumeClaim": {"claimName": "state-egress-proxy-1"}}
    pod(objects)["volumes"].append(volume)
    assert found(objects) == {"pod.proxy-volume"}
    volume["persistentVolumeClaim"] = {"claimName": "state-egress-proxy-notes"}
    assert found(objects) == set()
