"""U25: two replicas of a gateway, each with an API server of its own, one of which may be late.

Both API servers count the same versions, as two servers of one cluster do.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from egress.kubernetes.replica_report import ReplicaReport, read_report
from tests.cluster.gateway_lab import PODS, GatewayLab, readiness
from tests.cluster.test_gateway_metrics import answer_with
from tests.proxy.injecting_proxy import SECRET
from tests.proxy.serve_process import until
from tests.unit.kubernetes.watch_samples import Json, metadata, plain_pod

SECONDS: Final = 1
ADDRESSES: Final = ("127.77.0.1", "127.77.0.2")
NAMES: Final = ("egress-proxy-0", "egress-proxy-1")
FIRST: Final = "version: 1\nhosts: {a.example.com: {}}\n"
SECOND: Final = "version: 1\nhosts: {b.example.com: {}}\n"
THIRD: Final = "version: 1\nhosts: {c.example.com: {}}\n"
UNSOUND: Final = "version: 1\nhosts: {d.example.com: {alow: all}}\n"


def gateway_pod(name: str, address: str) -> Json:
    found = plain_pod(name, 0, address)
    made_by = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "egress-proxy", "uid": "set-uid"}
    found["metadata"] = metadata(name, 0, {**made_by, "controller": True})
    return found


class Replicas:
    """Two gateways, and what their API servers say."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        with socket.create_server(("", 0)) as found:
            self.port = int(found.getsockname()[1])
        places = list(zip(NAMES, ADDRESSES, strict=True))
        self.labs = [self._begin(folder / name, address, name, stack) for name, address in places]
        for each in places:
            self.put(gateway_pod(*each))

    def _begin(self, folder: Path, address: str, name: str, stack: ExitStack) -> GatewayLab:
        folder.mkdir()
        words = ["--ready", f"{address}:{self.port}", "--replica-lag", f"{SECONDS}s"]
        words += ["--rules-configmap", "egress-rules"]
        return stack.enter_context(GatewayLab(folder, *words, gateway=address, replica=name))

    def put(self, value: Json, *late: int) -> None:
        """Change a pod; the API server of a late replica says nothing of it yet."""
        for number, lab in enumerate(self.labs):
            if number not in late:
                lab.put(PODS, json.loads(json.dumps(value)))

    def write_rules(self, text: str, *late: int) -> None:
        for number, lab in enumerate(self.labs):
            if number not in late:
                lab.do(partial(lab.server.set, "configmaps", "egress-rules", {"hosts.yaml": text}))

    def event(self, number: int, reason: str) -> Json:
        """Wait for the newest Event of a replica to have this reason."""
        events = self.labs[number].server.events
        return until(lambda: events[-1] if events and events[-1]["reason"] == reason else {}, reason)

    async def report(self, number: int) -> ReplicaReport:
        status, text = await readiness(self.port, ADDRESSES[number], "/replica")
        assert status == 200
        return read_report(text.encode())

    async def become(self, number: int, status: int, said: str = "") -> None:
        """Ask for readiness until the answer is this one."""
        async with asyncio.timeout(30):
            while True:
                found, text = await readiness(self.port, ADDRESSES[number])
                if found == status and said in text:
                    return
                await asyncio.sleep(0.05)

    async def agree(self) -> None:
        """Wait until both have the same rules, and have told each other so."""
        async with asyncio.timeout(30):
            while len({(await self.report(each)).digest for each in (0, 1)}) != 1:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.05)
        for each in (0, 1):
            await self.become(each, 200)


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    with ExitStack() as stack:
        yield Replicas(tmp_path_factory.mktemp("replicas"), stack)


async def test_the_replica_without_the_newest_rules_is_not_ready_until_it_has_them(
    replicas: Replicas,
) -> None:
    replicas.write_rules(FIRST)
    await replicas.agree()
    replicas.write_rules(SECOND, 1)
    await replicas.become(1, 503, "egress-proxy-0 knows newer rules for more than 1 seconds")
    assert (await readiness(replicas.port, ADDRESSES[0]))[0] == 200, "the one that has them serves"
    told = await asyncio.to_thread(replicas.event, 1, "ReplicaBehind")
    assert (told["involvedObject"]["kind"], told["involvedObject"]["name"]) == ("Pod", NAMES[1])
    assert "newer rules" in told["message"]
    logged = [[str(each["cause"]) for each in lab.served.logged("replica.behind")] for lab in replicas.labs]
    assert "newer rules" in logged[1][-1]
    assert not any("newer rules" in cause for cause in logged[0])
    replicas.write_rules(SECOND, 0)
    await replicas.agree()
    await asyncio.to_thread(replicas.event, 1, "ReplicaAgrees")
    ahead, behind = await replicas.report(0), await replicas.report(1)
    assert ahead.versions == behind.versions
    assert ahead.taken < behind.taken


async def test_unsound_rules_take_no_replica_down(replicas: Replicas) -> None:
    replicas.write_rules(THIRD)
    await replicas.agree()
    before = await replicas.report(0)
    replicas.write_rules(UNSOUND)
    for lab in replicas.labs:
        await asyncio.to_thread(until, partial(lab.served.logged, "rules.refused"))
    # Longer than a replica may be behind: both have refused the same version.
    await asyncio.sleep(SECONDS + 5)
    for each in (0, 1):
        assert await readiness(replicas.port, ADDRESSES[each]) == (200, "ready\n")
        assert (await replicas.report(each)).digest == before.digest
    replicas.write_rules(FIRST)
    await replicas.agree()


async def test_a_replica_that_does_not_know_a_pod_is_not_ready_until_it_does(replicas: Replicas) -> None:
    replicas.write_rules(FIRST)
    await replicas.agree()
    pod = plain_pod("job", 0, "127.77.9.9")
    replicas.put(pod, 0)
    await replicas.become(0, 503, "egress-proxy-1 knows newer pods")
    assert (await readiness(replicas.port, ADDRESSES[1]))[0] == 200
    replicas.put(pod, 1)
    await replicas.become(0, 200)


async def test_the_last_replica_serves_although_it_is_behind(replicas: Replicas) -> None:
    replicas.write_rules(FIRST)
    await replicas.agree()
    replicas.write_rules(SECOND, 1)
    await replicas.become(1, 503, "newer rules")
    # The other one loses its watches, so it is not ready either, and nobody to be behind of.
    server = replicas.labs[0].server
    replicas.labs[0].do(partial(answer_with, server, 500))
    await replicas.become(0, 503, "the pods of the cluster are not known")
    await replicas.become(1, 200)
    replicas.labs[0].do(partial(answer_with, server, 200))
    replicas.write_rules(SECOND, 0)
    await replicas.agree()


async def test_a_report_names_no_rule_and_no_secret(replicas: Replicas) -> None:
    _, text = await readiness(replicas.port, ADDRESSES[0], "/replica")
    assert json.loads(text).keys() == {"replica", "ready", "digest", "taken", "versions"}
    for hidden in (SECRET, "example.com", "job"):
        assert hidden not in text
