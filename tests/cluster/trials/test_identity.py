"""C6, C9 to C11, C24: a gateway tells the sandboxes of its namespace apart while they come and go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scripts.cluster.settings import write_kube_proxy, write_pod_network
from tests.cluster.agent_sandbox.controller import AgentSandbox
from tests.cluster.installed_chart import InstalledChart
from tests.cluster.running_cluster import RunningCluster, wait
from tests.cluster.stand_ins import Internet
from tests.cluster.warm_pool import WarmPool

pytestmark = [pytest.mark.timeout(1800), pytest.mark.nightly]

type Json = dict[str, Any]

TURNS = 67
"""Of three sandboxes each."""


def test_a_member_of_a_pool_may_do_nothing(
    gateway: InstalledChart, claims: AgentSandbox, canary: Internet
) -> None:
    """C10: it asks all the time, and every answer says why not."""
    member = WarmPool(claims, gateway, "waiting").member()
    name = member["metadata"]["name"]
    before = canary.mark()
    gateway.until_answered(name, 503, "identity.pooled")
    wait(lambda: len(gateway.answers(name)) >= 10, lambda: "it asks no more")
    assert {(each.status, each.code) for each in gateway.answers(name)} == {(503, "identity.pooled")}
    assert canary.heads(before) == []
    assert gateway.exchanges(name) == []


@pytest.mark.parametrize("order", ["usual", "status-first", "label-first"])
def test_adoption_gives_a_sandbox_the_rights_of_its_claim_and_never_others(
    gateway: InstalledChart, claims: AgentSandbox, order: str
) -> None:
    """C9: each step comes half a second after the one before, and the sandbox asks meanwhile."""
    pool = WarmPool(claims, gateway, f"adopted-{order}")
    member, other = pool.member(), pool.member()
    claim = claims.claim(f"claim-{order}", pool.pool)
    steps: dict[str, Callable[[], None]] = {
        "name": lambda: claims.name_sandbox(claim, member),
        "owner": lambda: claims.move_owner(claim, member),
        "status": lambda: claims.answer(claim, member),
        "label": lambda: claims.relabel(member),
    }
    orders = {
        "usual": ("name", "owner", "status", "label"),
        "status-first": ("status", "name", "owner", "label"),
        "label-first": ("label", "name", "owner", "status"),
    }
    for step in orders[order]:
        steps[step]()
        time.sleep(0.5)
    name = member["metadata"]["name"]
    gateway.until_answered(name, 200)
    # A connection on which the rights change is cut, and has no answer.
    codes = {(each.status, each.code) for each in gateway.answers(name) if each.status}
    assert codes <= {
        (200, ""),
        (503, "identity.pooled"),
        (503, "identity.pending"),
        (503, "identity.changed"),
    }
    assert {line["claim"] for line in gateway.exchanges(name)} == {claim["metadata"]["name"]}
    assert {each.status for each in gateway.answers(other["metadata"]["name"])} == {503}, "its neighbour"


def test_a_sandbox_that_slept_has_its_claim_and_another_pod(
    gateway: InstalledChart, claims: AgentSandbox
) -> None:
    """C24: suspended and resumed, twenty times."""
    pool = WarmPool(claims, gateway, "sleeper")
    member = pool.member()
    claim, name = claims.claim("kept", pool.pool), member["metadata"]["name"]
    claims.adopt(claim, member)
    gateway.until_answered(name, 200)
    uids = {gateway.cluster.pod(gateway.namespace, name)["metadata"]["uid"]}
    for _ in range(20):
        claims.suspend(member)
        claims.resume(member, pool.template)
        gateway.cluster.until_ready(gateway.namespace, name)
        gateway.until_answered(name, 200)
        uids.add(gateway.cluster.pod(gateway.namespace, name)["metadata"]["uid"])
    lines = gateway.exchanges(name)
    assert {line["claim_uid"] for line in lines} == {claim["metadata"]["uid"]}
    assert {line["pod_uid"] for line in lines} == uids
    assert len(uids) == 21


def test_no_request_is_one_of_the_pod_that_had_the_address_before(
    cluster: RunningCluster, gateway: InstalledChart
) -> None:
    """C6: two hundred sandboxes share three addresses, each as soon as the one before is gone."""
    names, addresses = [], set()
    with three_addresses(cluster):
        for turn in range(TURNS):
            now = [f"reuse-{turn}-{place}" for place in range(3)]
            for name in now:
                cluster.api.create(f"/api/v1/namespaces/{gateway.namespace}/pods", gateway.asking(name, 0.02))
            addresses |= {pod["status"]["podIP"] for pod in cluster.until_ready(gateway.namespace, *now)}
            for name in now:
                gateway.until_answered(name, 200)
            cluster.delete_pods(gateway.namespace, *now)
            names += now
    assert len(addresses) <= 3
    lines = [line for line in gateway.lines() if str(line.get("path", "")).startswith("/pod/reuse-")]
    # Whoever is in no map yet, or no more, was denied.
    assert {line["verdict"] for line in lines if "pod" not in line} <= {"deny"}
    said = {(line["pod"], line["path"]) for line in lines if "pod" in line}
    assert said == {(name, f"/pod/{name}") for name in names}


@contextmanager
def three_addresses(cluster: RunningCluster) -> Iterator[None]:
    """Give pods that start meanwhile one of three addresses."""
    folder = cluster.folders.pod_network
    write_pod_network(folder, "10.244.0.240", "10.244.0.242")
    time.sleep(2)
    try:
        yield
    finally:
        write_pod_network(folder)
        time.sleep(2)


def test_behind_the_address_of_a_node_nobody_has_an_identity(
    cluster: RunningCluster, gateway: InstalledChart
) -> None:
    """C11: kube-proxy hides every pod behind the node, and goes back to what it was."""
    gateway.start_asking("hidden")
    gateway.until_answered("hidden", 200)
    keys = cluster.folders.keys / "proxy.kubeconfig"
    write_kube_proxy(cluster.folders.kube_proxy, keys, is_masquerading=True)
    try:
        gateway.until_answered("hidden", 403, "identity.nat")
    finally:
        write_kube_proxy(cluster.folders.kube_proxy, keys)
    wait(lambda: gateway.answers("hidden")[-1].status == 200, lambda: "the pod stays hidden")
