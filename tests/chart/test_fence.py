"""The fence of the chart holds for its own check, whatever the values are."""

from __future__ import annotations

from typing import Final

import pytest

from egress.kubernetes.manifest_check import check_manifests
from egress.kubernetes.manifest_set import PodLabels
from egress.kubernetes.manifest_text import ManifestText, read_manifests
from tests.chart.rendered_chart import EXAMPLES, VALUES, Json, objects, one, rendered

WORKLOADS: Final = [read_manifests(file.name, file.read_text("utf-8")) for file in EXAMPLES]


def codes(*texts: ManifestText) -> list[str]:
    return [finding.code for finding in check_manifests(texts, "agents", PodLabels()).findings]


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_chart_and_its_examples_have_no_finding(values: Json) -> None:
    assert codes(read_manifests("chart", rendered(values)), *WORKLOADS) == []


def test_one_policy_more_is_found_in_each_example() -> None:
    opened = """
        {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: tools, namespace: agents},
         spec: {podSelector: {matchLabels: {egress: workload}}, policyTypes: [Egress],
                egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}}
    """
    found = codes(read_manifests("chart", rendered()), *WORKLOADS, read_manifests("tools", opened))
    assert found == ["policy.address"]


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_everything_but_the_fence_of_the_cluster_is_in_the_namespace(values: Json) -> None:
    places = {
        each["metadata"].get("namespace")
        for each in objects(values)
        if not each["apiVersion"].startswith("admissionregistration.k8s.io/")
    }
    assert places == {"agents"}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_every_container_has_requests_and_no_rights(values: Json) -> None:
    specs = [each.get("spec", {}) for each in objects(values)]
    pods = [spec["template"]["spec"] for spec in specs if "template" in spec]
    assert len(pods) == 2
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            resources = container["resources"]
            assert resources["limits"].keys() <= resources["requests"].keys()


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_what_the_gateway_mounts_is_there(values: Json) -> None:
    spec = one(objects(values), "StatefulSet")["spec"]
    claims = [each["metadata"] for each in spec.get("volumeClaimTemplates", ())]
    (container,) = spec["template"]["spec"]["containers"]
    mounted = [each["name"] for each in container["volumeMounts"]]
    assert sorted(mounted) == sorted(each["name"] for each in (*spec["template"]["spec"]["volumes"], *claims))


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_replicas_reach_each_other_at_the_port_for_readiness_and_nobody_else_does(values: Json) -> None:
    found = objects(values)
    spec = one([each for each in found if each["metadata"]["name"] == "proxy"], "NetworkPolicy")["spec"]
    has_others = one(found, "StatefulSet")["spec"]["replicas"] > 1
    others = [{"podSelector": {"matchLabels": {"app": "egress-proxy"}}}]
    ready = [{"port": 8081}]
    assert [rule["from"] for rule in spec["ingress"] if ready[0] in rule["ports"]] == [others] * has_others
    assert ({"to": others, "ports": ready} in spec["egress"]) is has_others
