"""C29: two hundred claims at once. What it measured is printed (pytest -rP), and no time fails it."""

from __future__ import annotations

import http.client
import os
import ssl
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.agent_sandbox.controller import AgentSandbox
from tests.cluster.container_processes import container_processes
from tests.cluster.installed_chart import InstalledChart
from tests.cluster.running_cluster import Json
from tests.cluster.shipped_fence import PYTHON
from tests.cluster.warm_pool import WarmPool

pytestmark = [pytest.mark.timeout(3000), pytest.mark.nightly]

CLAIMS: Final = 200
BATCH: Final = 20
SLEEP: Final = "import time; time.sleep(3600)"
CONTROLLERS: Final = 8
RETRY_SECONDS: Final = 0.02
CLK_TCK: Final = os.sysconf("SC_CLK_TCK")


class Client:
    """A program in the network of a pod: it asks as soon as the claim is ready, until it is allowed."""

    def __init__(self, gateway: InstalledChart, process: Path, name: str, context: ssl.SSLContext) -> None:
        self._address, self._context, self._name = gateway.address, context, name
        self._network = process / "ns/net"
        self._ready = threading.Event()
        self.codes: list[int] = []
        self.seconds = 0.0
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def start(self) -> None:
        """The claim is ready."""
        self._ready.set()

    def _run(self) -> None:
        # Of this thread alone.
        with self._network.open("rb") as network:
            os.setns(network.fileno(), os.CLONE_NEWNET)
        self._ready.wait()
        began = time.monotonic()
        while self.codes[-1:] != [200]:
            self.codes.append(self._ask())
            self.seconds = time.monotonic() - began
            if self.codes[-1] != 200:
                assert self.seconds < 60, self.codes
                time.sleep(RETRY_SECONDS)

    def _ask(self) -> int:
        connection = http.client.HTTPSConnection(self._address, 3128, timeout=30, context=self._context)
        connection.set_tunnel("api.github.com")
        connection.request("GET", f"/pod/{self._name}")
        status = connection.getresponse().status
        connection.close()
        return status


@pytest.fixture
def members(gateway: InstalledChart, claims: AgentSandbox) -> tuple[Json, list[Json]]:
    """A pool with a member for each claim; they sleep."""
    pool = WarmPool(claims, gateway, "burst", command=[PYTHON, "-I", "-c", SLEEP])
    found: list[Json] = []
    for _ in range(0, CLAIMS, BATCH):
        made = [claims.member(pool.pool, pool.template) for _ in range(BATCH)]
        gateway.cluster.until_ready(gateway.namespace, *(each["metadata"]["name"] for each in made))
        found += made
    return pool.pool, found


def test_two_hundred_claims_at_once_are_served_each_as_itself(
    gateway: InstalledChart, claims: AgentSandbox, members: tuple[Json, list[Json]]
) -> None:
    pool, sandboxes = members
    names = [each["metadata"]["name"] for each in sandboxes]
    trust = gateway.cluster.api.get(gateway.path("configmaps/egress-trust"))["data"]["ca.pem"]
    context = ssl.create_default_context(cadata=trust)
    clients = {
        name: Client(gateway, container_processes(gateway, name, "workload")[0], name, context)
        for name in names
    }
    proxies = [container_processes(gateway, pod["metadata"]["name"], "proxy")[0] for pod in gateway.proxies()]
    before, began = [processor_seconds(each) for each in proxies], time.monotonic()

    def claim(sandbox: Json) -> None:
        name = sandbox["metadata"]["name"]
        claims.adopt(claims.claim(f"claim-{name}", pool), sandbox)
        clients[name].start()

    with ThreadPoolExecutor(CONTROLLERS) as controllers:
        list(controllers.map(claim, sandboxes))
    for client in clients.values():
        client.thread.join(90)
    took = time.monotonic() - began
    assert {code for client in clients.values() for code in client.codes} <= {200, 503}
    assert all(client.codes[-1] == 200 for client in clients.values())
    lines = [
        line for line in gateway.lines() if line.get("verdict") == "allow" and line.get("pod") in clients
    ]
    assert {(line["path"], line["claim"]) for line in lines} == {(f"/pod/{n}", f"claim-{n}") for n in names}
    seconds = sorted(client.seconds for client in clients.values())
    spent = [f"{processor_seconds(p) - b:.2f} s" for p, b in zip(proxies, before, strict=True)]
    memory = [f"{resident_mib(each):.0f} MiB" for each in proxies]
    middle, last = seconds[CLAIMS // 2], seconds[CLAIMS * 99 // 100]
    sys.stdout.write(
        f"{CLAIMS} claims in {took:.1f} s: from ready to allowed p50 {middle * 1000:.0f} ms,"
        f" p99 {last * 1000:.0f} ms; each replica: processor {spent}, memory {memory}\n"
    )


def processor_seconds(process: Path) -> float:
    fields = (process / "stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLK_TCK


def resident_mib(process: Path) -> float:
    (line,) = [
        each for each in (process / "status").read_text("ascii").splitlines() if each.startswith("VmRSS")
    ]
    return int(line.split()[1]) / 1024
