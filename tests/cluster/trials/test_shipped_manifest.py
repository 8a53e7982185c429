"""C14 to C16, C18, C33: the manifest as it is shipped, where the network enforces policies at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.api_client import ApiError
from tests.cluster.running_cluster import RunningCluster
from tests.cluster.shipped_fence import (
    BESIDE_THE_PROXY,
    NAMES_OF_THE_API_SERVER,
    PROXY,
    WAYS_TO_THE_PROXY,
    Fence,
    workload,
)
from tests.cluster.stand_ins import Internet, policy_engine

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]

SLEEP = "import time; time.sleep(3600)"


@pytest.fixture(autouse=True)
def enforced(cluster: RunningCluster) -> Iterator[None]:
    with policy_engine(cluster):
        yield


def test_the_example_reaches_the_proxy_with_a_credential_that_it_does_not_hold(
    fence: Fence, canary: Internet
) -> None:
    fence.start("workload")
    fence.cluster.until_ready(fence.namespace, "workload")
    before = canary.mark()
    for is_direct in (False, True):
        done = fence.request("workload", "https://api.github.com/zen", is_direct=is_direct)
        assert done.stdout == "200", done.stderr
    denied = fence.request("workload", "https://elsewhere.example.com/")
    assert denied.stdout != "200"
    heads = canary.heads(before)
    assert len(heads) == 2, "what is denied does not leave"
    assert all(f"authorization: bearer {fence.token}" in head.lower() for head in heads)
    everything = fence.cluster.execute(fence.namespace, "workload", "env").stdout
    assert fence.token not in everything


def test_a_workload_reaches_the_proxy_and_nothing_else(fence: Fence, unfenced: str) -> None:
    """C15 too: API server, kubelet, name server, metadata of three clouds, and an address of the internet."""
    fence.start("inside", SLEEP)
    fence.start_unfenced(unfenced, "outside", SLEEP)
    fence.cluster.until_ready(unfenced, "outside")
    fence.cluster.until_ready(fence.namespace, "inside")
    words = (*BESIDE_THE_PROXY, *WAYS_TO_THE_PROXY)
    assert fence.answering("outside", *words, namespace=unfenced) == set(BESIDE_THE_PROXY)
    assert fence.answering("inside", *words) == set(WAYS_TO_THE_PROXY)


def test_a_port_of_the_node_does_not_answer(fence: Fence, unfenced: str) -> None:
    """C14: a service on a port of the node, and a program in the node's own network."""
    listen = (
        "import socket; s = socket.create_server(('0.0.0.0', {port})); s.listen()\nwhile True: s.accept()"
    )
    value = workload("host", listen.format(port=9477), has_gate=False)
    del value["metadata"]["labels"]
    value["metadata"]["namespace"] = unfenced
    value["spec"] |= {"hostNetwork": True, "volumes": [], "dnsPolicy": "Default", "dnsConfig": {}}
    value["spec"]["containers"][0]["volumeMounts"] = []
    fence.cluster.api.create(f"/api/v1/namespaces/{unfenced}/pods", value)
    fence.start_unfenced(unfenced, "server", listen.format(port=8080))
    fence.cluster.api.patch(
        f"/api/v1/namespaces/{unfenced}/pods/server", {"metadata": {"labels": {"app": "server"}}}
    )
    port = {"port": 8080, "nodePort": 31777}
    service = {
        "metadata": {"name": "server"},
        "spec": {"type": "NodePort", "selector": {"app": "server"}, "ports": [port]},
    }
    fence.cluster.api.create(f"/api/v1/namespaces/{unfenced}/services", service)
    fence.start("inside", SLEEP)
    fence.start_unfenced(unfenced, "outside", SLEEP)
    fence.cluster.until_ready(unfenced, "host", "server", "outside")
    (inside,) = fence.cluster.until_ready(fence.namespace, "inside")
    words = [f"tcp:{inside['status']['hostIP']}:{number}" for number in (31777, 9477, 10250, 10256)]
    assert fence.answering("outside", *words, namespace=unfenced) == set(words)
    assert fence.answering("inside", *words) == set()


def test_a_pod_that_is_no_sandbox_does_not_reach_the_proxy(fence: Fence, unfenced: str) -> None:
    """C18: neither by the service nor by the address of the pod, from here or from another namespace."""
    value = workload("stranger", SLEEP, has_gate=False)
    value["metadata"]["labels"] = {"app": "something"}
    fence.cluster.api.create(f"/api/v1/namespaces/{fence.namespace}/pods", value)
    fence.start("sandbox", SLEEP, has_gate=False)
    fence.start_unfenced(unfenced, "outside", SLEEP)
    fence.cluster.until_ready(unfenced, "outside")
    fence.cluster.until_ready(fence.namespace, "stranger", "sandbox")
    addresses = [PROXY, *(pod["status"]["podIP"] for pod in fence.proxies())]
    words = [f"tcp:{address}:{port}" for address in addresses for port in (3128, 443, 53)]
    assert fence.answering("sandbox", *words) == set(words)
    assert fence.answering("stranger", *words) == set()
    assert fence.answering("outside", *words, namespace=unfenced) == set()


def test_the_name_server_of_the_cluster_does_not_answer_by_any_address(fence: Fence, unfenced: str) -> None:
    """C16: by its service, and by the address of its pod."""
    (server,) = fence.cluster.pods("kube-system", "k8s-app=kube-dns")
    words = [f"{kind}:{at}:53" for kind in ("udp", "tcp") for at in ("10.96.0.10", server["status"]["podIP"])]
    fence.start("inside", SLEEP)
    fence.start_unfenced(unfenced, "outside", SLEEP)
    fence.cluster.until_ready(unfenced, "outside")
    fence.cluster.until_ready(fence.namespace, "inside")
    assert fence.answering("outside", *words, namespace=unfenced) == set(words)
    assert fence.answering("inside", *words) == set()


def test_a_name_that_leads_to_the_api_server_is_not_dialled_whatever_the_rules_say(fence: Fence) -> None:
    """C19: the service of the API server, and a public name with the address of the node."""
    fence.start("workload")
    fence.cluster.until_ready(fence.namespace, "workload")
    assert fence.request("workload", "https://api.github.com/zen").stdout == "200"
    for name in NAMES_OF_THE_API_SERVER:
        assert fence.request("workload", f"https://{name}/").stdout == "403"
        assert fence.refusal("workload") == "address.refused", name


def test_without_a_proxy_everything_is_shut_and_with_it_again_open(fence: Fence, canary: Internet) -> None:
    """C20: the proxy goes and comes; nobody touches the workload."""
    fence.start("workload")
    fence.cluster.until_ready(fence.namespace, "workload")
    assert fence.request("workload", "https://api.github.com/zen").stdout == "200"
    fence.scale(0)
    before = canary.mark()
    for is_direct in (False, True):
        assert fence.request("workload", "https://api.github.com/zen", is_direct=is_direct).returncode != 0
    assert canary.heads(before) == []
    fence.scale(1)
    assert fence.request("workload", "https://api.github.com/zen").stdout == "200"


def test_the_strictest_admission_takes_the_example_and_refuses_one_with_rights(fence: Fence) -> None:
    """C33, a part: the namespace of the manifest enforces the profile `restricted`."""
    fence.start("admitted", SLEEP)
    rich = workload("rich", SLEEP)
    rich["spec"]["initContainers"][0]["securityContext"]["capabilities"] = {"add": ["NET_ADMIN"]}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        fence.cluster.api.create(f"/api/v1/namespaces/{fence.namespace}/pods", rich)
