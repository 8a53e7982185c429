"""The stand-in for a policy engine reads policies as Kubernetes means them; nftables takes its rules."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.cluster.policy_ruleset import Pod, Wishes, matches, render

PROXY = Pod("agents", {"app": "egress-proxy"}, "10.244.0.5")
WORKLOAD = Pod("agents", {"egress": "workload"}, "10.244.0.7")
STRANGER = Pod("other", {"egress": "workload"}, "10.244.0.9")
NAMESPACES = {name: {"kubernetes.io/metadata.name": name} for name in ("agents", "other")}


def policy(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "it", "namespace": "agents"}, "spec": spec}


def rules_of(chain: str, *specs: dict[str, Any], is_shut: bool = False) -> list[str]:
    """The rules of a chain, without its frame."""
    pods = [PROXY, WORKLOAD, STRANGER]
    text = render(Wishes(pods, NAMESPACES, [policy(spec) for spec in specs], "10.244.0.0/24", is_shut))
    _, found, rest = text.partition(f"  chain {chain} {{\n")
    return [line.strip() for line in rest.partition("  }\n")[0].splitlines()] if found else []


def test_a_pod_that_no_policy_selects_is_open() -> None:
    assert rules_of("egress") == []
    assert rules_of("unknown", is_shut=True)[0] == (
        "ip saddr 10.244.0.0/24 ip saddr != { 10.244.0.5, 10.244.0.7, 10.244.0.9 } reject"
    )


def test_a_policy_shuts_what_it_selects_in_its_namespace_and_opens_what_it_names() -> None:
    to_proxy = {"to": [{"podSelector": {"matchLabels": {"app": "egress-proxy"}}}], "ports": [{"port": 3128}]}
    spec = {
        "podSelector": {"matchLabels": {"egress": "workload"}},
        "egress": [to_proxy],
        "policyTypes": ["Egress"],
    }
    assert rules_of("egress", spec) == ["ip saddr 10.244.0.7 jump egress_10_244_0_7"]
    assert rules_of("egress_10_244_0_7", spec) == ["ip daddr { 10.244.0.5 } tcp dport 3128 return", "reject"]
    assert rules_of("ingress", spec) == []


def test_policies_of_one_pod_add_up() -> None:
    nothing = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    block = {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}
    opening = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [{"ipBlock": block}]}]}
    assert rules_of("egress_10_244_0_7", nothing) == ["reject"]
    assert rules_of("egress_10_244_0_7", nothing, opening) == [
        "ip daddr 0.0.0.0/0 ip daddr != { 10.0.0.0/8 } return",
        "reject",
    ]


def test_a_selector_of_namespaces_reaches_pods_of_others_and_an_absent_one_does_not() -> None:
    peer = {"podSelector": {"matchLabels": {"egress": "workload"}}}
    elsewhere = peer | {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}
    spec = {"podSelector": {"matchLabels": {"app": "egress-proxy"}}, "ingress": [{"from": [peer]}]}
    assert rules_of("ingress_10_244_0_5", spec) == ["ip saddr { 10.244.0.7 } return", "reject"]
    spec["ingress"] = [{"from": [elsewhere]}]
    assert rules_of("ingress_10_244_0_5", spec) == ["ip saddr { 10.244.0.9 } return", "reject"]


@pytest.mark.parametrize(
    ("expression", "is_selected"),
    [
        ({"key": "a", "operator": "In", "values": ["b"]}, True),
        ({"key": "a", "operator": "NotIn", "values": ["b"]}, False),
        ({"key": "x", "operator": "Exists"}, False),
        ({"key": "x", "operator": "DoesNotExist"}, True),
    ],
)
def test_an_expression_of_a_selector_is_understood(expression: dict[str, Any], is_selected: bool) -> None:
    assert matches({"matchExpressions": [expression]}, {"a": "b"}) is is_selected


def test_what_it_does_not_know_stops_it() -> None:
    spec = {"podSelector": {}, "ingress": [{"ports": [{"port": "by-name"}]}]}
    with pytest.raises(TypeError, match="by-name"):
        rules_of("ingress", spec)


@pytest.mark.system("nft", "nftables")
@pytest.mark.system("unshare")
def test_nftables_takes_the_rules_again_and_again() -> None:
    block = {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}
    egress = [{"to": [{"ipBlock": block}, {"podSelector": {}}], "ports": [{"port": 1, "endPort": 9}]}]
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": egress, "ingress": [{}]}
    text = render(Wishes([PROXY, WORKLOAD], NAMESPACES, [policy(spec)], "10.244.0.0/24", True))
    command = ["unshare", "--user", "--map-root-user", "--net", "nft", "-f", "-"]
    done = subprocess.run(command, input=text + text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
