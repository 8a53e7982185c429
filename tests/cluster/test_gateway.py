"""One proxy, many sandboxes: a real proxy beside an API server tells pods apart by their addresses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.kubernetes.watch_events import EventType
from tests.cluster.gateway_lab import CLAIMS, GATEWAY, PODS, REPLICA, SANDBOXES, GatewayLab, outcome
from tests.proxy.injecting_proxy import BLIND, NAME, SECRET
from tests.proxy.lab.certificates import trusting
from tests.proxy.lab.client import Peer, connect, dial
from tests.proxy.serve_process import until
from tests.unit.kubernetes.watch_samples import claim, owner, plain_pod, pod, sandbox
from tests.unit.proxy.dns_messages import REFUSED, SERVFAIL, query


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


async def test_a_gate_opens_for_the_pod_at_its_address_alone(lab: GatewayLab) -> None:
    one = Claimed(lab)
    await lab.becomes(one.address, 503, "identity.pooled")
    # Nobody has claimed it: the pod is known all the same.
    assert await lab.gate(one.address, f"{one.pod}-uid") == "n-1"
    assert await lab.gate(one.address, "another") == "identity.mismatch"
    assert await lab.gate(lab.address(), f"{one.pod}-uid") == "identity.unknown"
    bare = plain_pod(lab.name("bare"), 0, address := lab.address())
    bare["metadata"]["labels"] = {}
    lab.put(PODS, bare)
    await lab.becomes(address, 403, "identity.unowned")
    assert await lab.gate(address, bare["metadata"]["uid"]) == "identity.unowned"


async def is_cut(peer: Peer) -> bool:
    """Whether a kept connection ends within a second."""
    try:
        return await asyncio.wait_for(peer.channel.some(), 1) == b""
    except TimeoutError:
        return False


async def test_an_address_that_moves_brings_nothing_of_the_pod_before(lab: GatewayLab) -> None:
    """U6, U18: within a tenth of a second, while a connection is kept."""
    address = lab.address()
    for _ in range(3):
        one, two = lab.name("job"), lab.name("job")
        first, second = plain_pod(one, 0, address), plain_pod(two, 0, address)
        lab.put(PODS, first)
        await lab.becomes(address, 200)
        async with await lab.visit(address) as kept:
            assert outcome(await kept.get("/echo", lab.host)) == (200, "")
            lab.delete(PODS, first)
            await asyncio.sleep(0.05)
            lab.put(PODS, second)
            assert await is_cut(kept)
        await lab.becomes(address, 200)
        assert {line["pod"] for line in lab.lines("exchange", sandbox=two, status=200)} == {two}
        lab.delete(PODS, second)
        await lab.becomes(address, 403, "identity.unknown")


async def test_two_pods_with_one_address_are_both_refused_and_cut(lab: GatewayLab) -> None:
    address = lab.address()
    first, second = plain_pod(lab.name("job"), 0, address), plain_pod(lab.name("job"), 0, address)
    lab.put(PODS, first)
    await lab.becomes(address, 200)
    async with await lab.visit(address) as kept:
        lab.put(PODS, second)
        assert await is_cut(kept)
    await lab.becomes(address, 503, "identity.ambiguous")
    lab.delete(PODS, first)
    await lab.becomes(address, 200)


async def test_a_claim_that_changes_or_goes_cuts_and_denies(lab: GatewayLab) -> None:
    one = Claimed(lab)
    one.adopt()
    await lab.becomes(one.address, 200)
    async with await lab.visit(one.address) as kept, await lab.visit(one.address, BLIND) as tunnel:
        lab.put(CLAIMS, value := claim(one.claim, 0, "another"))
        assert await is_cut(kept)
        assert await is_cut(tunnel)
    assert lab.lines("tunnel", pod=one.pod)[0]["code"] == "identity.changed"
    await lab.becomes(one.address, 503, "identity.pending")
    # A profile that the rules do not have is no profile to fall back from.
    lab.put(CLAIMS, claim(one.claim, 0, one.name, "admin"))
    await lab.becomes(one.address, 403, "profile.unknown")
    lab.put(CLAIMS, claim(one.claim, 0, one.name))
    await lab.becomes(one.address, 200)
    lab.delete(CLAIMS, value)
    await lab.becomes(one.address, 503, "identity.pending")


async def test_a_lost_watch_denies_what_is_new_and_cuts_nobody_until_the_next_list(lab: GatewayLab) -> None:
    """U8."""
    address, other = lab.address(), lab.address()
    value, stays = plain_pod(lab.name("job"), 0, address), plain_pod(lab.name("job"), 0, other)
    lab.put(PODS, value)
    lab.put(PODS, stays)
    await lab.becomes(address, 200)
    await lab.becomes(other, 200)
    async with await lab.visit(address) as kept, await lab.visit(other) as kept_too:

        def fail() -> None:
            lab.server.status = 500
            lab.server.cut()
            # Nobody is told of it.
            lab.server.put(PODS, value, EventType.DELETED)

        lab.do(fail)
        await lab.becomes(other, 503, "identity.stale")
        assert await lab.gate(other, stays["metadata"]["uid"]) == "identity.stale"
        assert outcome(await kept.get("/echo", lab.host)) == (200, "")
        lab.do(lambda: setattr(lab.server, "status", 200))
        assert await asyncio.wait_for(kept.channel.some(), 10) == b""
        assert outcome(await kept_too.get("/echo", lab.host)) == (200, "")
    await lab.becomes(other, 200)


async def test_the_address_of_a_node_is_nobodys(lab: GatewayLab) -> None:
    """U11."""
    node = lab.address()
    value = plain_pod(lab.name("job"), 0, lab.address())
    value["status"]["hostIP"] = node
    lab.put(PODS, value)
    await lab.becomes(node, 403, "identity.nat")
    host = plain_pod(lab.name("host"), 0, address := lab.address())
    host["spec"]["hostNetwork"] = True
    lab.put(PODS, host)
    await lab.becomes(address, 403, "identity.host_network")


async def test_a_client_that_knows_no_proxy_is_told_apart_too(lab: GatewayLab) -> None:
    one = Claimed(lab)
    await lab.becomes(one.address, 503, "identity.pooled")
    async with await lab.visit_transparently(one.address) as peer:
        response = await peer.get("/echo", lab.host)
    # Readable inside of TLS, and the next try comes on another connection.
    assert outcome(response) == (503, "identity.pooled")
    assert (response.header("retry-after"), response.header("connection")) == ("1", "close")
    one.adopt()
    await lab.becomes(one.address, 200)
    async with await lab.visit_transparently(one.address) as peer:
        assert outcome(await peer.get("/echo", lab.host)) == (200, "")


async def test_names_are_answered_to_sandboxes_alone(lab: GatewayLab) -> None:
    one, stranger = Claimed(lab), lab.address()
    await lab.becomes(one.address, 503, "identity.pooled")
    assert lab.ask_name(stranger).rcode == REFUSED
    # To the page that says why, where this process may serve its port, which is 443.
    told = lab.ask_name(one.address)
    assert (told.rcode, told.addresses) in {(SERVFAIL, ()), (0, (GATEWAY,))}
    one.adopt()
    await lab.becomes(one.address, 200)
    assert lab.ask_name(one.address).addresses == (GATEWAY,)
    [line] = lab.lines("refusal", peer=stranger, entry="dns")
    assert (line["code"], line["host"]) == ("identity.unknown", NAME)


async def test_names_asked_for_over_a_kept_connection_are_cut_with_the_pod(lab: GatewayLab) -> None:
    name, address = lab.name("job"), lab.address()
    value = plain_pod(name, 0, address)
    lab.put(PODS, value)
    await lab.becomes(address, 200)
    async with await dial((GATEWAY, lab.names_port), address) as peer:
        question = query(NAME)
        await peer.send(len(question).to_bytes(2, "big") + question)
        assert await peer.channel.some()
        lab.delete(PODS, value)
        assert await is_cut(peer)
    [line] = lab.lines("refusal", pod=name, entry="dns")
    assert line["code"] == "identity.gone"


async def test_a_pod_is_one_sandbox_at_its_addresses_of_both_families(tmp_path: Path) -> None:
    """U24."""
    with GatewayLab(tmp_path, "--listen", "[::1]:0") as lab:
        address = lab.address()
        lab.put(PODS, plain_pod("job", 0, address, "::1"))
        await lab.becomes(address, 200)
        ready = str(until(lambda: lab.served.logged("proxy.ready"))[0]["proxy"])
        port = int(ready.rpartition("[::1]:")[2].partition(",")[0])
        to = ("127.0.0.1", lab.upstream.port)
        trust = trusting(lab.authority, ("http/1.1",))
        async with await connect(to, NAME, trust, proxy=("::1", port)) as peer:
            assert outcome(await peer.get("/echo", lab.host)) == (200, "")
        lines = lab.lines("exchange", 2, sandbox="job", status=200)
        assert {line["peer"] for line in lines} == {address, "::1"}


async def test_a_sandbox_that_is_killed_is_told_so_until_it_is_restored(lab: GatewayLab) -> None:
    name, address = lab.name("job"), lab.address()
    lab.put(PODS, plain_pod(name, 0, address))
    await lab.becomes(address, 200)
    async with await lab.visit(address) as kept:
        assert outcome(await kept.get("/echo", lab.host)) == (200, "")
        killed = await asyncio.to_thread(lab.served.egress, "kill", "--sandbox", name)
        assert killed.status == 0, killed.err
        assert await is_cut(kept)
    assert await lab.ask(address) == (403, "access.withdrawn")
    # The others, and whoever has no rights, are not concerned.
    other = lab.address()
    lab.put(PODS, plain_pod(lab.name("job"), 0, other))
    await lab.becomes(other, 200)
    restored = await asyncio.to_thread(lab.served.egress, "kill", "--undo", "--sandbox", name)
    assert restored.status == 0, restored.err
    await lab.becomes(address, 200)
