"""All policies of a pod are read together; test_manifest_check.py has every weakness."""

from __future__ import annotations

from egress.kubernetes.fence_check import check_fence
from tests.unit.kubernetes.manifest_samples import Json, as_set, part, shipped

OPEN = {"policyTypes": ["Egress"], "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]}


def found(objects: list[Json]) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in check_fence(as_set(objects))]


def policy(selector: Json, spec: Json) -> Json:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "added", "namespace": "agents"},
        "spec": {"podSelector": selector, **spec},
    }


def test_a_rule_is_told_once_for_all_the_pods_it_opens() -> None:
    objects = [*shipped(), policy({}, OPEN)]
    second = {**part(objects, "Pod"), "metadata": {**part(objects, "Pod")["metadata"], "name": "second"}}
    (finding,) = found([*objects, second])
    assert finding[0] == "policy.address"
    assert finding[1].endswith("0.0.0.0/0, for Pod agents/workload and 1 more")


def test_a_policy_for_other_pods_opens_nothing_here() -> None:
    assert found([*shipped(), policy({"matchLabels": {"app": "other"}}, OPEN)]) == []


def test_a_policy_that_may_select_a_pod_opens_it_and_confines_nobody() -> None:
    by_generated = {"matchExpressions": [{"key": "pod-template-hash", "operator": "Exists"}]}
    assert [code for code, _ in found([*shipped(), policy(by_generated, OPEN)])] == ["policy.address"]
    alone = [each for each in shipped() if each["kind"] == "Pod"]
    shut = policy(by_generated, {"policyTypes": ["Ingress", "Egress"]})
    assert {code for code, _ in found([*alone, shut])} == {"fence.none", "fence.ingress"}


def test_a_rule_for_a_direction_that_the_policy_does_not_have_opens_nothing() -> None:
    assert found([*shipped(), policy({}, {**OPEN, "policyTypes": ["Ingress"]})]) == []


def test_a_named_port_of_the_proxy_is_one_that_it_serves() -> None:
    proxy = {"podSelector": {"matchLabels": {"app": "egress-proxy"}}}
    rule = {"to": [proxy], "ports": [{"port": "https"}]}
    assert found([*shipped(), policy({}, {"policyTypes": ["Egress"], "egress": [rule]})]) == []
