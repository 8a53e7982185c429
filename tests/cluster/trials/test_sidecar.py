"""The proxy in the pod of its workload, in a cluster where nobody enforces a policy."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from tests.cluster.running_cluster import RunningCluster, is_ready, wait
from tests.cluster.shipped_fence import BESIDE_THE_PROXY, PROBE
from tests.cluster.stand_ins import Internet

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]

TOKEN: Final = "a-token-that-no-workload-holds"
RULES: Final = """\
version: 1
secrets:
  token: { from: "file:/run/secrets/egress-token/token", hosts: [api.github.com] }
hosts:
  api.github.com:
    allow: [{ id: read, methods: [GET] }]
    inject: [{ bearer: token }]
"""
DIVERTED: Final = ("tcp:8.8.8.8:443", "tcp:10.96.0.1:443", "udp:10.96.0.10:53", "tcp:10.96.0.10:53")
"""Whoever dials these reaches the proxy of the pod."""
CURL: Final = ("curl", "-sS", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}")
URL: Final = "https://api.github.com/user"


@pytest.fixture
def namespace(cluster: RunningCluster, unfenced: str, canary: Internet) -> str:
    """A namespace without a policy, with the rules and the secret of the proxy."""
    apply(
        cluster,
        unfenced,
        _object("ConfigMap", "egress-rules", {"hosts.yaml": RULES, "upstream.pem": canary.authority}),
        _object("Secret", "egress-token", {"token": base64.b64encode(TOKEN.encode()).decode("ascii")}),
    )
    return unfenced


def apply(cluster: RunningCluster, namespace: str, *objects: dict[str, Any]) -> None:
    for each in objects:
        each["metadata"]["namespace"] = namespace
    cluster.apply(*objects)


def _object(kind: str, name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": data}


def completed(value: dict[str, Any]) -> dict[str, Any]:
    """An object, completed by the command, whose proxy trusts the stand-in for the internet."""
    words = (sys.executable, "-m", "egress", "k8s", "inject", "-", "--sidecar", "--secret", "egress-token")
    # A manifest of JSON is one of YAML, too.
    done = subprocess.run(words, input=json.dumps(value), capture_output=True, text=True, check=True)
    check = (sys.executable, "-m", "egress", "k8s", "check", "-")
    subprocess.run(check, input=done.stdout, capture_output=True, text=True, check=True)
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(done.stdout)
    spec = found["spec"]["template"]["spec"] if "template" in found["spec"] else found["spec"]
    part(spec, "egress-proxy")["args"].append("--upstream-ca=/etc/egress/upstream.pem")
    return found


def part(spec: dict[str, Any], name: str) -> dict[str, Any]:
    (container,) = [each for each in spec["initContainers"] if each["name"] == name]
    assert isinstance(container, dict)
    return container


def pod(name: str, *command: str) -> dict[str, Any]:
    container = {
        "name": "agent",
        "image": "egress-sandbox",
        "imagePullPolicy": "IfNotPresent",
        "command": list(command or ("sleep", "3600")),
    }
    spec = {"terminationGracePeriodSeconds": 0, "restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_a_workload_reaches_allowed_hosts_through_its_proxy_and_nothing_else(
    cluster: RunningCluster, namespace: str, canary: Internet
) -> None:
    apply(cluster, namespace, completed(pod("agent")), pod("bare"))
    cluster.until_ready(namespace, "agent", "bare")
    # The same addresses answer a pod without a proxy, or their silence would prove nothing.
    assert answering(cluster, namespace, "bare", *BESIDE_THE_PROXY) == set(BESIDE_THE_PROXY)
    told = set(BESIDE_THE_PROXY) | set(DIVERTED)
    reached = answering(cluster, namespace, "agent", *sorted(told))
    assert {word for word in reached if not word.endswith((":443", ":53", ":80"))} == set()
    since = canary.mark()
    for words in (CURL, (*CURL, "--noproxy", "*")):
        done = cluster.execute(namespace, "agent", *words, URL, container="agent")
        assert done.stdout == "200", done.stderr
    assert all(TOKEN in head for head in canary.heads(since))
    assert len(canary.heads(since)) == 2
    denied = cluster.execute(namespace, "agent", *CURL, "-X", "POST", URL, container="agent")
    assert denied.stdout == "403"
    inside = cluster.execute(namespace, "agent", "sh", "-c", "env; cat /proc/1/environ", container="agent")
    assert TOKEN not in inside.stdout


def test_the_api_server_is_out_of_reach_at_the_port_of_the_proxy(
    cluster: RunningCluster, namespace: str
) -> None:
    apply(cluster, namespace, completed(pod("agent")), pod("bare"))
    cluster.until_ready(namespace, "agent", "bare")
    words = (*CURL, "-k", "--noproxy", "*", "https://10.96.0.1/version")
    assert cluster.execute(namespace, "bare", *words).stdout == "200"
    assert cluster.execute(namespace, "agent", *words, container="agent").stdout != "200"


def test_a_job_ends_with_its_workload_and_the_proxy_after_it(cluster: RunningCluster, namespace: str) -> None:
    template = pod("agent", *CURL, URL)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "agent"},
        "spec": {"backoffLimit": 0, "template": {"metadata": {}, "spec": template["spec"]}},
    }
    apply(cluster, namespace, completed(job))

    def ended() -> bool:
        found = cluster.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/agent")
        return bool(found.get("status", {}).get("succeeded"))

    wait(ended, lambda: cluster.kubectl("-n", namespace, "describe", "pods"), 120)
    logs = ("-n", namespace, "logs", "job/agent", "-c")
    assert cluster.kubectl(*logs, "agent").endswith("200")
    assert "proxy.stopped" in cluster.kubectl(*logs, "egress-proxy")


def test_without_the_right_to_lock_the_network_nothing_starts(
    cluster: RunningCluster, namespace: str
) -> None:
    value = completed(pod("agent"))
    part(value["spec"], "egress-lock")["securityContext"]["capabilities"] = {"drop": ["ALL"]}
    apply(cluster, namespace, value)

    def has_failed() -> bool:
        return bool(cluster.pod(namespace, "agent").get("status", {}).get("phase") == "Failed")

    wait(has_failed, lambda: cluster.kubectl("-n", namespace, "describe", "pods"))
    found = cluster.pod(namespace, "agent")
    assert not is_ready(found)
    message = found["status"]["initContainerStatuses"][0]["state"]["terminated"]["message"]
    assert "the packet filter of this network cannot be set" in message


def answering(cluster: RunningCluster, namespace: str, name: str, *words: str) -> set[str]:
    done = cluster.execute(namespace, name, "python3", "-I", "-c", PROBE, *words, container="agent")
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))
