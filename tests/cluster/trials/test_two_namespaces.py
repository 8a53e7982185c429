"""C28: two gateways in two namespaces, where everything has the same name; there is no way across."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.cluster.agent_sandbox.controller import AgentSandbox
from tests.cluster.installed_chart import InstalledChart, installed, trusting_upstreams
from tests.cluster.running_cluster import RunningCluster
from tests.cluster.stand_ins import Internet
from tests.cluster.warm_pool import WarmPool

pytestmark = [pytest.mark.timeout(900), pytest.mark.nightly]

OTHER = "10.96.0.94"


@pytest.fixture
def twin(cluster: RunningCluster, gateway: InstalledChart, canary: Internet) -> Iterator[InstalledChart]:
    """The same chart with the same rules once more."""
    values = trusting_upstreams()
    with installed(
        InstalledChart(cluster, "charted-twin", address=OTHER, values=values), canary.authority
    ) as it:
        yield it


def test_sandboxes_of_one_name_in_two_namespaces_are_two(
    gateway: InstalledChart, claims: AgentSandbox, twin: InstalledChart, canary: Internet
) -> None:
    charts = {gateway.namespace: gateway, twin.namespace: twin}
    pods, claimed, mark = {}, {}, canary.mark()
    for namespace, chart in charts.items():
        objects = replace(claims, namespace=namespace)
        pool = WarmPool(objects, chart, "python")
        member = pool.member()
        claimed[namespace] = objects.claim("first", pool.pool)
        objects.adopt(claimed[namespace], member)
        pods[namespace] = member["metadata"]["name"]
        chart.until_answered(pods[namespace], 200)
    for namespace, chart in charts.items():
        (other,) = charts.keys() - {namespace}
        ways = {each: f"tcp:{charts[each].address}:3128" for each in charts}
        replicas = [f"tcp:{pod['status']['podIP']}:3128" for pod in charts[other].proxies()]
        neighbour = charts[other].cluster.pod(other, pods[other])["status"]["podIP"]
        across = [ways[other], *replicas, f"tcp:{neighbour}:8888"]
        assert chart.answering(pods[namespace], ways[namespace], *across) == {ways[namespace]}
        lines = chart.lines()
        assert {line["namespace"] for line in lines if "namespace" in line} == {namespace}
        uids = {line["claim_uid"] for line in lines if line.get("claim") == "first"}
        assert uids == {claimed[namespace]["metadata"]["uid"]}
    # Each gateway has a credential of its own.
    sent = " ".join(canary.heads(mark))
    assert gateway.token != twin.token
    for chart in charts.values():
        assert f"bearer {chart.token}" in sent.lower()
    assert "/pod/python" in sent
