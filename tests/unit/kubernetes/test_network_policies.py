"""Policies as the API server completes them, and those that agent-sandbox writes."""

from __future__ import annotations

from egress.kubernetes.label_selector import Match
from egress.kubernetes.network_policies import PodPolicy, has_default_policy, is_managed
from tests.unit.kubernetes.manifest_samples import Json, agent_sandboxes, as_set, part


def policy(spec: Json) -> PodPolicy:
    found = as_set([{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": spec}])
    return found.policies[""][0]


def test_directions_that_are_left_out_are_derived() -> None:
    def directions(spec: Json) -> tuple[bool, bool]:
        read = policy(spec)
        return read.isolates_ingress, read.isolates_egress

    assert directions({}) == (True, False)
    assert directions({"egress": [{}]}) == (True, True)
    assert directions({"policyTypes": ["Egress"]}) == (False, True)
    assert directions({"policyTypes": ["Ingress"], "egress": [{}]}) == (True, False)
    assert policy({"policyTypes": ["Ingress"], "egress": [{}]}).egress == []


def test_a_policy_selects_pods_of_its_namespace() -> None:
    manifests = as_set(agent_sandboxes())
    (pod,) = manifests.sandboxes
    by_name = {each.source.name: each.selects(pod, pod.labels) for each in manifests.policies["agents"]}
    assert by_name == {
        "nothing": Match.YES,
        "workload-to-proxy": Match.YES,
        "proxy": Match.NO,
        "authority": Match.NO,
        "python": Match.YES,
    }
    assert policy({}).selects(pod, pod.labels) is Match.NO


def test_a_template_has_a_policy_unless_it_is_unmanaged() -> None:
    objects = agent_sandboxes()
    spec = part(objects, "SandboxTemplate")["spec"]
    spec.pop("networkPolicy")
    (template,) = [each for each in as_set(objects).objects if each.kind == "SandboxTemplate"]
    assert has_default_policy(template)
    assert len(as_set(objects).policies["agents"]) == 5
    spec["networkPolicyManagement"] = "Unmanaged"
    (template,) = [each for each in as_set(objects).objects if each.kind == "SandboxTemplate"]
    assert not is_managed(template.node.at("spec"))
    assert not has_default_policy(template)
    assert len(as_set(objects).policies["agents"]) == 4
