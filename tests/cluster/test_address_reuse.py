"""An address goes from pod to pod, and the log names the one that had it. The bench does so 200 times."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.cluster.gateway_lab import CLAIMS, PODS, SANDBOXES, GatewayLab
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer
from tests.proxy.serve_process import until
from tests.unit.kubernetes.watch_samples import Json, claim, owner, pod, sandbox

REUSES = 3


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayLab]:
    with GatewayLab(tmp_path_factory.mktemp("gateway")) as lab:
        yield lab


class Tenant:
    """The pod of a claim, for as long as it has an address that others have had."""

    def __init__(self, lab: GatewayLab, address: str) -> None:
        self.lab, self.address = lab, address
        self.name, self.claim = lab.name("s"), lab.name("c")
        self.pod = f"{self.name}-pod"
        self._sandbox: Json = sandbox(self.name, 0)
        self._pod: Json = pod(self.pod, 0, address, sandbox=self.name)
        self.peer: Peer

    def come(self) -> None:
        self.lab.put(SANDBOXES, self._sandbox)
        self.lab.put(PODS, self._pod)

    async def work(self) -> None:
        """Begin when the gateway knows this pod, as the gate does: a pooled one can be no other."""
        await self.lab.becomes(self.address, 503, "identity.pooled")
        self._sandbox = sandbox(self.name, 0, owner("SandboxClaim", self.claim))
        self.lab.put(CLAIMS, claim(self.claim, 0, self.name))
        self.lab.put(SANDBOXES, self._sandbox)
        await self.lab.becomes(self.address, 200)
        self.peer = await self.lab.visit(self.address)
        await self.ask(self.pod)

    async def ask(self, name: str) -> None:
        await self.peer.get(f"/pods/{name}", self.lab.host)

    def release(self) -> None:
        self.lab.delete(CLAIMS, claim(self.claim, 0, self.name))
        self.lab.delete(SANDBOXES, self._sandbox)

    def finish(self) -> None:
        self._pod = {**self._pod, "status": {**self._pod["status"], "phase": "Succeeded"}}
        self.lab.put(PODS, self._pod)

    def remove(self) -> None:
        self.lab.delete(PODS, self._pod)


@pytest.mark.parametrize(
    "order",
    ["release finish remove come", "release finish come remove", "come release finish remove"],
)
async def test_no_request_goes_under_the_name_of_another_pod(lab: GatewayLab, order: str) -> None:
    address = lab.address()
    tenants = [Tenant(lab, address) for _ in range(REUSES + 1)]
    tenants[0].come()
    await tenants[0].work()
    for old, new in pairwise(tenants):
        for step in order.split():
            getattr(new if step == "come" else old, step)()
        await new.work()
        # What is left of the pod before is of no use to whoever holds it.
        with pytest.raises((EndedError, OSError)):
            await old.ask(new.pod)
        await old.peer.channel.drop()
    # That the names below are compared at all: one request lies about the pod it comes from.
    await tenants[-1].ask(tenants[0].pod)
    await tenants[-1].peer.channel.drop()
    sent = [*((each.pod, each.pod) for each in tenants), (tenants[0].pod, tenants[-1].pod)]

    def recorded() -> list[tuple[str, object]]:
        lines = lab.served.records("exchange")
        at_work = [line for line in lines if line["peer"] == address and "/pods/" in str(line["path"])]
        return [(str(line["path"]).removeprefix("/pods/"), line["pod"]) for line in at_work]

    until(lambda: len(recorded()) >= len(sent), "all requests in the log")
    assert recorded() == sent
