"""The proxy is reached by sandboxes alone, and reaches nothing near."""

from __future__ import annotations

import pytest

from egress.kubernetes.proxy_check import check_proxy
from tests.unit.kubernetes.manifest_samples import Json, as_set, part, shipped


def found(objects: list[Json]) -> set[str]:
    manifests = as_set(objects)
    return {each.code for each in check_proxy(manifests, manifests.proxies[0])}


def proxy_policy(objects: list[Json]) -> Json:
    spec: Json = part(objects, "NetworkPolicy", "proxy")["spec"]
    return spec


def test_the_shipped_proxy_has_no_finding_and_one_without_policies_has() -> None:
    objects = shipped()
    assert found(objects) == set()
    assert found([each for each in objects if each["kind"] != "NetworkPolicy"]) == {
        "proxy.ingress",
        "proxy.egress",
    }


@pytest.mark.parametrize(
    ("rule", "is_fine"),
    [
        (
            {"from": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}], "ports": [{"port": 9090}]},
            True,
        ),
        ({"from": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]}, False),
        ({"from": [{"podSelector": {"matchLabels": {"app": "x"}}}], "ports": [{"port": "https"}]}, False),
        ({"from": [{"podSelector": {}}], "ports": [{"port": 1, "endPort": 9000}]}, False),
        ({"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 3128}]}, False),
        (
            {"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"egress": "workload"}}}]},
            False,
        ),
        ({}, False),
    ],
)
def test_only_sandboxes_reach_the_ports_for_sandboxes(rule: Json, *, is_fine: bool) -> None:
    objects = shipped()
    proxy_policy(objects)["ingress"].append(rule)
    assert found(objects) == (set() if is_fine else {"proxy.ingress"})


@pytest.mark.parametrize(
    ("block", "is_fine"),
    [
        ({"cidr": "0.0.0.0/0"}, False),
        ({"cidr": "::/0", "except": ["fc00::/7"]}, False),
        ({"cidr": "::/0", "except": ["fc00::/7", "fe80::/10"]}, True),
        ({"cidr": "10.0.0.0/8"}, False),
        ({"cidr": "10.1.2.3/32"}, True),
        ({"cidr": "not a network"}, False),
        ({"cidr": "1.2.3.0/24", "except": ["x"]}, False),
    ],
)
def test_a_whole_private_range_is_not_open_to_the_proxy(block: Json, *, is_fine: bool) -> None:
    objects = shipped()
    proxy_policy(objects)["egress"] = [{"to": [{"ipBlock": block}]}]
    assert found(objects) == (set() if is_fine else {"proxy.egress"})
