"""C1, C3, C4, C5, C17: networks that do not enforce, that are opened, or that lose what enforces them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.agent_sandbox.controller import TEMPLATE_HASH, AgentSandbox, fnv
from tests.cluster.api_client import ApiError
from tests.cluster.running_cluster import RunningCluster, is_ready, wait
from tests.cluster.shipped_fence import BESIDE_THE_PROXY, CANARY, PYTHON, WAYS_TO_THE_PROXY, Fence, workload
from tests.cluster.stand_ins import policy_engine

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]

SLEEP = "import time; time.sleep(3600)"
OUT = "tcp:8.8.8.8:443"
"""A way out that the gate does not dial."""


def test_without_enforcement_a_pod_does_not_start_and_says_what_answered(
    cluster: RunningCluster, fence: Fence
) -> None:
    """C1: every policy is there, and nobody enforces them."""
    fence.start("refused", SLEEP, gate_seconds=5)
    message = cluster.until_gate_failed(fence.namespace, "refused")
    for address in ("10.96.0.1:443", "10.77.0.2:10250", "10.96.0.10:53", "169.254.169.254:80", "1.1.1.1:443"):
        assert address in message
    assert "answered, and must not" in message
    pod = cluster.pod(fence.namespace, "refused")
    assert not is_ready(pod)
    assert "waiting" in pod["status"]["containerStatuses"][0]["state"], "its program never ran"


def test_a_template_without_rules_opens_its_pods_and_the_gate_refuses_them(
    cluster: RunningCluster, fence: Fence, agent_sandbox: AgentSandbox
) -> None:
    """C3: the controller's policy for a template adds to ours, and both select the same pod."""
    label = {TEMPLATE_HASH: fnv("python")}
    with policy_engine(cluster):
        bare, gated = workload("bare", SLEEP, has_gate=False), workload("gated", SLEEP, gate_seconds=5)
        plain = workload("plain", SLEEP)
        for pod in (bare, gated):
            pod["metadata"]["labels"] |= label
        agent_sandbox.policy(agent_sandbox.template("python", bare))
        for pod in (bare, gated, plain):
            cluster.api.create(f"/api/v1/namespaces/{fence.namespace}/pods", pod)
        cluster.until_ready(fence.namespace, "bare", "plain")
        assert OUT in fence.answering("bare", OUT)
        assert "1.1.1.1:443 answered, and must not" in cluster.until_gate_failed(fence.namespace, "gated")
        assert fence.answering("plain", OUT) == set(), "a pod that the template does not select stays shut"


def test_a_template_with_rules_lets_its_pods_reach_the_proxy_alone(
    cluster: RunningCluster, fence: Fence, agent_sandbox: AgentSandbox
) -> None:
    peer = {"podSelector": {"matchLabels": {"app": "egress-proxy"}}}
    ports = [{"port": port} for port in (3128, 443, 80, 53)] + [{"port": 53, "protocol": "UDP"}]
    with policy_engine(cluster):
        pod = workload("gated", SLEEP)
        pod["metadata"]["labels"][TEMPLATE_HASH] = fnv("python")
        rules = {"egress": [{"to": [peer], "ports": ports}]}
        agent_sandbox.policy(agent_sandbox.template("python", pod, networkPolicy=rules))
        cluster.api.create(f"/api/v1/namespaces/{fence.namespace}/pods", pod)
        cluster.until_ready(fence.namespace, "gated")
        assert fence.answering("gated", OUT, *WAYS_TO_THE_PROXY) == set(WAYS_TO_THE_PROXY)


def test_a_pod_that_loses_its_label_or_its_template_loses_everything_and_gains_nothing(
    cluster: RunningCluster, fence: Fence, agent_sandbox: AgentSandbox
) -> None:
    """C4."""
    words = (*BESIDE_THE_PROXY, *WAYS_TO_THE_PROXY)
    with policy_engine(cluster):
        pod = workload("loser", SLEEP)
        pod["metadata"]["labels"][TEMPLATE_HASH] = fnv("python")
        peer = {"podSelector": {"matchLabels": {"app": "egress-proxy"}}}
        template = agent_sandbox.template("python", pod, networkPolicy={"egress": [{"to": [peer]}]})
        agent_sandbox.policy(template)
        cluster.api.create(f"/api/v1/namespaces/{fence.namespace}/pods", pod)
        cluster.until_ready(fence.namespace, "loser")
        assert fence.answering("loser", *words) == set(WAYS_TO_THE_PROXY)
        path = f"/api/v1/namespaces/{fence.namespace}/pods/loser"
        cluster.api.patch(path, {"metadata": {"labels": {"egress": None}}})
        # Its own policy of the template still leads to the proxy, until that goes with its template.
        agent_sandbox.delete(template)
        wait(lambda: fence.answering("loser", *words) == set(), lambda: "the pod still reaches something")


def test_an_engine_that_dies_leaves_pods_shut_or_the_gate_refuses_new_ones(
    cluster: RunningCluster, fence: Fence
) -> None:
    """C5: an engine whose absence opens everything, and one whose rules stay."""
    with policy_engine(cluster) as engine:
        fence.start("before", SLEEP)
        cluster.until_ready(fence.namespace, "before")
        engine.die()
        assert fence.answering("before", CANARY, *WAYS_TO_THE_PROXY) == set(WAYS_TO_THE_PROXY)
        fence.start("after", SLEEP, gate_seconds=5)
        assert "the proxy does not answer" in cluster.until_gate_failed(fence.namespace, "after")
        engine.flush()
        # No gate can help a pod that runs already: what opens here is open.
        assert CANARY in fence.answering("before", CANARY)
        fence.start("later", SLEEP, gate_seconds=5)
        assert "1.1.1.1:443 answered, and must not" in cluster.until_gate_failed(fence.namespace, "later")


def test_a_container_that_is_added_with_capabilities_does_not_get_out(
    cluster: RunningCluster, fence: Fence
) -> None:
    """C17: the policy is outside of the pod, and the namespace does not admit such a container at all."""
    with policy_engine(cluster):
        fence.start("debugged", SLEEP)
        cluster.until_ready(fence.namespace, "debugged")
        container = {
            "name": "debugger",
            "image": "egress-proxy",
            "imagePullPolicy": "IfNotPresent",
            "command": [PYTHON, "-I", "-c", SLEEP],
            "securityContext": {
                "capabilities": {"add": ["NET_ADMIN"]},
                "runAsUser": 0,
                "runAsNonRoot": False,
            },
        }
        path = f"/api/v1/namespaces/{fence.namespace}/pods/debugged/ephemeralcontainers"
        change = {"spec": {"ephemeralContainers": [container]}}
        with pytest.raises(ApiError, match="violates PodSecurity"):
            cluster.api.patch(path, change, "strategic")
        with admitting_everything(fence):
            cluster.api.patch(path, change, "strategic")
        wait(
            lambda: has_debugger(cluster.pod(fence.namespace, "debugged")),
            lambda: cluster.kubectl("-n", fence.namespace, "describe", "pod", "debugged"),
        )
        assert fence.answering("debugged", *BESIDE_THE_PROXY, container="debugger") == set()


@contextmanager
def admitting_everything(fence: Fence) -> Iterator[None]:
    """Take pods with every right for a while."""
    path, key = f"/api/v1/namespaces/{fence.namespace}", "pod-security.kubernetes.io/enforce"
    level = fence.cluster.api.get(path)["metadata"]["labels"][key]
    fence.cluster.api.patch(path, {"metadata": {"labels": {key: "privileged"}}})
    try:
        yield
    finally:
        fence.cluster.api.patch(path, {"metadata": {"labels": {key: level}}})


def has_debugger(pod: dict[str, Any]) -> bool:
    statuses = pod["status"].get("ephemeralContainerStatuses") or ()
    return any("running" in each["state"] for each in statuses)
