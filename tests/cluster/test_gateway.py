"""One proxy, many sandboxes: a real proxy beside an API server tells pods apart by their addresses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from egress.kubernetes.watch_events import EventType
from tests.cluster.gateway_lab import CLAIMS, GATEWAY, PODS, REPLICA, SANDBOXES, GatewayLab, outcome
from tests.proxy.injecting_proxy import BLIND, SECRET
from tests.proxy.lab.client import dial
from tests.proxy.serve_process import until
from tests.unit.kubernetes.watch_samples import claim, owner, plain_pod, pod, sandbox


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayLab]:
    with GatewayLab(tmp_path_factory.mktemp("gateway")) as lab:
        yield lab


class Claimed:
    """A sandbox of agent-sandbox at an address of its own, step by step."""

    def __init__(self, lab: GatewayLab) -> None:
        self.lab = lab
        self.name, self.claim, self.address = lab.name("s"), lab.name("c"), lab.address()
        self.pod = f"{self.name}-pod"
        lab.put(SANDBOXES, sandbox(self.name, 0))
        lab.put(PODS, pod(self.pod, 0, self.address, sandbox=self.name))

    def adopt(self) -> None:
        """As the controllers do: the claim, the owner of the sandbox, then the status of the claim."""
        self.lab.put(CLAIMS, claim(self.claim, 0))
        self.lab.put(SANDBOXES, sandbox(self.name, 0, owner("SandboxClaim", self.claim)))
        self.lab.put(CLAIMS, claim(self.claim, 0, self.name))


async def test_each_claim_is_a_sandbox_of_its_own_from_the_pool_to_its_end(lab: GatewayLab) -> None:
    one, two = Claimed(lab), Claimed(lab)
    await lab.becomes(one.address, 503, "identity.pooled")
    one.adopt()
    two.adopt()
    await lab.becomes(one.address, 200)
    await lab.becomes(two.address, 200)
    for each in (one, two):
        [line] = lab.lines("exchange", sandbox=each.name, status=200)
        assert (line["pod"], line["claim"], line["peer"]) == (each.pod, each.claim, each.address)
    [line] = lab.lines("exchange", sandbox=one.name, status=200)
    assert (line["namespace"], line["pod_uid"], line["claim_uid"], line["replica"]) == (
        "agents",
        f"{one.pod}-uid",
        f"{one.claim}-uid",
        REPLICA,
    )
    assert SECRET.encode() in lab.upstream.links[-1].heads[-1]


async def test_the_newest_line_of_the_log_is_told_outside_of_its_volume(lab: GatewayLab) -> None:
    told = await asyncio.to_thread(until, lambda: lab.served.logged("audit.newest"))
    assert int(str(told[0]["line"])) >= 1
    assert len(str(told[0]["mac"])) == 64


async def test_a_pod_without_a_sandbox_is_one_by_its_label(lab: GatewayLab) -> None:
    name, address = lab.name("job"), lab.address()
    lab.put(PODS, plain_pod(name, 0, address))
    await lab.becomes(address, 200)
    bare = plain_pod(lab.name("bare"), 0, other := lab.address())
    bare["metadata"]["labels"] = {}
    lab.put(PODS, bare)
    await lab.becomes(other, 403, "identity.unowned")
    assert lab.lines("exchange", sandbox=name, pod=name, status=200)


async def test_a_peer_that_is_no_pod_costs_one_question_and_is_refused(lab: GatewayLab) -> None:
    address = lab.address()
    before = len(lab.server.requests)
    for _ in range(3):
        assert await lab.ask(address) == (403, "identity.unknown")
    asked = [each for each in lab.server.requests[before:] if "fieldSelector" in each]
    assert [each.endswith(f"status.podIP%3D{address}") for each in asked] == [True]
    refused = lab.lines("exchange", 3, peer=address)
    assert {(each["sandbox"], each["verdict"], each["code"]) for each in refused} == {
        ("default", "deny", "identity.unknown")
    }


async def test_a_pod_that_no_watch_has_told_of_yet_is_asked_for(lab: GatewayLab) -> None:
    name, address = lab.name("job"), lab.address()
    value = plain_pod(name, 0, address)

    def unseen() -> None:
        """Put it into the cluster, and let no watch tell of it."""
        lab.server.put(PODS, value, EventType.MODIFIED)
        lab.server.log.pop()

    lab.do(unseen)
    assert await lab.ask(address) == (200, "")


@pytest.mark.parametrize("name", ["", BLIND], ids=["intercepted", "tunnel"])
async def test_kept_connections_of_a_pod_that_ends_are_cut_at_once(lab: GatewayLab, name: str) -> None:
    pod_name, address = lab.name("job"), lab.address()
    value = plain_pod(pod_name, 0, address)
    lab.put(PODS, value)
    await lab.becomes(address, 200)
    async with await lab.visit(address, *([name] if name else [])) as peer:
        if not name:
            assert outcome(await peer.get("/echo", lab.host)) == (200, "")
        # It ends, and keeps the address in its status, which may be another pod's by now.
        began = time.monotonic()
        lab.put(PODS, {**value, "status": {**value["status"], "phase": "Succeeded"}})
        assert await asyncio.wait_for(peer.channel.some(), 5) == b""
        assert time.monotonic() - began < 1
    if name:
        [line] = lab.lines("tunnel", pod=pod_name)
        assert (line["code"], line["verdict"]) == ("identity.gone", "cut")
    [removed] = lab.lines("sandbox.removed", sandbox=pod_name)
    assert (removed["reason"], removed["connections"]) == ("identity.gone", 1)
    assert await lab.ask(address) == (403, "identity.unknown")


async def gate(lab: GatewayLab, address: str, uid: str) -> str:
    """The answer to the gate of a pod at an address."""
    async with await dial((GATEWAY, lab.served.port), address) as peer:
        body = f'{{"uid": "{uid}", "nonce": "n-1"}}'
        head = f"POST /gate HTTP/1.1\r\nhost: {GATEWAY}\r\ncontent-length: {len(body)}\r\n\r\n"
        response = await peer.request((head + body).encode())
    return response.header("egress-denied") or response.header("egress-nonce") or ""


async def test_a_gate_opens_for_the_pod_at_its_address_alone(lab: GatewayLab) -> None:
    one = Claimed(lab)
    await lab.becomes(one.address, 503, "identity.pooled")
    # Nobody has claimed it: the pod is known all the same.
    assert await gate(lab, one.address, f"{one.pod}-uid") == "n-1"
    assert await gate(lab, one.address, "another") == "identity.mismatch"
    assert await gate(lab, lab.address(), f"{one.pod}-uid") == "identity.unknown"
    bare = plain_pod(lab.name("bare"), 0, address := lab.address())
    bare["metadata"]["labels"] = {}
    lab.put(PODS, bare)
    await lab.becomes(address, 403, "identity.unowned")
    assert await gate(lab, address, bare["metadata"]["uid"]) == "identity.unowned"
