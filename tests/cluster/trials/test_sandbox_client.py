"""C27: the program of the guide to agent-sandbox, which also runs without a cluster, on a cluster.

Its client is the package as it is, with a router, pods behind the gateway, and claims from a warm pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.cluster import binaries
from scripts.pages import ROOT, blocks
from tests.cluster.agent_sandbox import runtime_server
from tests.cluster.agent_sandbox.router import asked_for, running_router
from tests.cluster.agent_sandbox.running_controller import running_controller
from tests.cluster.installed_chart import EXAMPLE, InstalledChart, installed, trusting_upstreams
from tests.cluster.running_cluster import RunningCluster, is_ready
from tests.cluster.stand_ins import Internet, policy_engine
from tests.peers.conftest import peers
from tests.peers.fetched import run

__all__ = ["peers"]

pytestmark = [pytest.mark.timeout(1800), pytest.mark.nightly]

PAGE = ROOT / "docs/guides/agent-sandbox.md"
FILES = {block.file: block.text for block in blocks(PAGE) if block.language in ("yaml", "yml", "python")}
NAMESPACE = "agents"
PORT = 8443


def rules() -> str:
    """Those of the guide; a gateway takes the secret from a file, and the API is not on its machine.

    In a cluster a claim without a profile has `default`, and not one of its pool: agent-sandbox lets no claim
    differ from an annotation of its template.
    """
    text = FILES["hosts.yaml"].replace("env:TRACKER_TOKEN", "file:/run/secrets/egress/token")
    text = text.replace("offline:", "default:")
    return "".join(line for line in text.splitlines(keepends=True) if "127.0.0.1" not in line)


@pytest.fixture
def gateway(
    cluster: RunningCluster, canary: Internet, images_of_the_product: None
) -> Iterator[InstalledChart]:
    """A gateway with the rules of the guide, in the namespace of its program."""
    outbound = {"outbound": {"ports": [443, PORT]}}
    chart = InstalledChart(cluster, NAMESPACE, values=trusting_upstreams(rules()) | outbound)
    with policy_engine(cluster), installed(chart, canary.authority) as found:
        yield found


def make_pool(gateway: InstalledChart) -> None:
    """The pool `python` from the chart's example, with the program that an image of agent-sandbox has."""
    template, pool = (gateway.here(each) for each in EXAMPLE["agent-sandbox"])
    blueprint = template["spec"]["podTemplate"]
    blueprint["metadata"]["annotations"] = {"egress/profile-max": "default, tracker"}
    script = Path(runtime_server.__file__).read_text("utf-8")
    (container,) = blueprint["spec"]["containers"]
    container |= {"command": ["python3", "-I", "-c", script], "readinessProbe": {"tcpSocket": {"port": 8888}}}
    container["resources"] = {"requests": {"cpu": "10m", "memory": "64Mi"}}
    blueprint["spec"]["initContainers"][0]["resources"]["requests"] = {"cpu": "10m", "memory": "32Mi"}
    template["metadata"]["name"] = "python"
    pool["metadata"]["name"] = "python"
    pool["spec"]["sandboxTemplateRef"]["name"] = "python"
    gateway.cluster.apply(template, pool)


@pytest.mark.usefixtures("peers")
def test_the_program_that_runs_without_a_cluster_runs_on_one(
    gateway: InstalledChart, canary: Internet, tmp_path: Path
) -> None:
    cluster = gateway.cluster
    program, mark = tmp_path / "program.py", canary.mark()
    program.write_text(FILES["program.py"], "utf-8")
    env = {"KUBECONFIG": str(cluster.folders.kubeconfig), "PATH": f"{binaries.folder()}:/usr/bin:/bin"}
    with running_controller(cluster, NAMESPACE), running_router(cluster):
        make_pool(gateway)
        done = run(program, cwd=tmp_path, env=env)
        assert_no_way_through_the_router_to_the_gateway(gateway)
    assert done.stdout == "remember\n 403\n 200\n", done.stderr
    (head,) = [head for head in canary.heads(mark) if head.startswith("GET /v1/user")]
    assert f"authorization: bearer {gateway.token}" in head.lower()
    asked = [line for line in gateway.lines() if line.get("host") == "api.example.com" and "verdict" in line]
    assert {line["verdict"]: line["profile"] for line in asked} == {"deny": None, "allow": "tracker"}
    assert all(line["claim"].startswith("sandbox-claim-") for line in asked)


def assert_no_way_through_the_router_to_the_gateway(gateway: InstalledChart) -> None:
    """C18: the router dials what its client names. A member of the pool answers, a replica does not."""
    cluster = gateway.cluster
    members = [pod for pod in cluster.pods(NAMESPACE, "egress=workload") if is_ready(pod)]
    assert asked_for(cluster, members[0]["status"]["podIP"], 8888, "/exists/any") == "200"
    for proxy in gateway.proxies():
        for port, path in ((8081, "/ready"), (3128, "/")):
            assert asked_for(cluster, proxy["status"]["podIP"], port, path) in {"000", "502"}
