"""Sandboxes that share a listener are told apart by address, before a byte is read and once for all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from egress.errors import CODES
from egress.proxy.ingress.peer_identity import PeerIdentity
from egress.proxy.ingress.ports import Lanes
from egress.proxy.ingress.server import IngressServer
from egress.types import Identity, Workload
from tests.unit.proxy.hellos import real
from tests.unit.proxy.ingress_fixture import (
    QUICK,
    FakeEngine,
    FakeSandbox,
    IngressFixture,
    code,
    connect,
    get,
    status,
    until,
)

API = "api.example.com"
TUNNEL = connect(f"{API}:443")
POD = Workload("agents", "p", "p-uid")


class FakePeers:
    """Tells of everybody what it was told itself."""

    def __init__(self) -> None:
        self.who = PeerIdentity(Identity("pod", workload=POD))
        self.again = self.who
        self.asked = 0
        self.pod = "p-uid"

    def identify(self, peer: str) -> PeerIdentity:
        return self.who

    def gate_code(self, peer: str, uid: str) -> str:
        return "" if uid == self.pod else "identity.mismatch"

    async def ask_again(self, peer: str) -> PeerIdentity:
        self.asked += 1
        return self.again


class SharedIngress(IngressFixture):
    """A door whose listeners several sandboxes share."""

    def __init__(self) -> None:
        names = ("box", "pod")
        super().__init__(FakeEngine(sandboxes={name: FakeSandbox(Identity(name)) for name in names}))
        self.peers = FakePeers()
        lanes = Lanes(self.tunnel.carry, self.full.carry)
        self.door = IngressServer(self.house, lanes, QUICK, peers=self.peers)


@pytest.fixture(name="step")
def doorstep() -> Iterator[SharedIngress]:
    step = SharedIngress()
    yield step
    step.close()


def without_rights(reason: str) -> PeerIdentity:
    return PeerIdentity(Identity("box", workload=POD), reason)


async def test_a_connection_has_the_identity_of_its_peer_and_not_of_its_listener(step: SharedIngress) -> None:
    await step.ask(TUNNEL, real(API))
    [admitted] = step.full.arrivals
    assert (admitted.identity.sandbox, admitted.identity.workload) == ("pod", POD)


async def test_a_peer_without_rights_gets_nowhere_and_reads_why(step: SharedIngress) -> None:
    for reason in sorted(each for each in CODES if each.startswith("identity.")):
        if reason == "identity.unknown":
            continue
        step.peers.who = without_rights(reason)
        plain = get("http://plain.example.com/", "plain.example.com")
        for request in (TUNNEL, connect("evil.example:22"), plain):
            answer = await step.ask(request)
            assert (status(answer), code(answer)) == (CODES[reason].status, reason)
            assert (b"\r\nretry-after: " in answer) is bool(CODES[reason].retry_after)
        # It is told so as well where its request is none.
        assert code(await step.ask(b"GET /x HTTP/1.1\r\n\r\n")) == reason
    assert step.arrivals == []
    assert all(each.identity.workload is POD for each in step.house.audit.refusals)


async def test_a_peer_without_rights_is_told_by_an_alert_on_transparent_tls(step: SharedIngress) -> None:
    step.peers.who = without_rights("identity.pooled")
    answer = await step.ask(real(API), listener=step.listener("transparent", 443))
    assert answer == bytes.fromhex("15030300020231")
    assert (step.last.code, step.last.host, step.last.entry) == ("identity.pooled", API, "sni")


async def test_a_peer_that_nobody_knows_is_asked_for_once_and_then_served_as_what_it_is(
    step: SharedIngress,
) -> None:
    known, step.peers.who = step.peers.who, without_rights("identity.unknown")
    step.peers.again = without_rights("identity.unknown")
    assert code(await step.ask(TUNNEL)) == "identity.unknown"
    step.peers.again = without_rights("identity.stale")
    assert code(await step.ask(TUNNEL)) == "identity.stale"
    step.peers.again = known
    call = step.call()
    await call.send(TUNNEL)
    assert status(await call.read()) == 200
    # By the shares of its own sandbox, and no longer by those of all peers that are not known.
    assert (step.door.connections("pod"), step.door.connections("box")) == (1, 0)
    await call.send(real(API))
    await until(lambda: bool(step.arrivals))
    await call.hang_up()
    assert step.arrivals[0].identity.sandbox == "pod"
    assert step.peers.asked == 3


async def test_the_identity_stays_that_of_the_moment_of_the_accept(step: SharedIngress) -> None:
    call = step.call()
    step.peers.who = PeerIdentity(Identity("other", workload=Workload("agents", "q", "q-uid")))
    await call.send(TUNNEL)
    await call.read()
    await call.send(real(API))
    await until(lambda: bool(step.arrivals))
    await call.hang_up()
    assert step.arrivals[0].identity.sandbox == "pod"


async def test_connections_of_a_pod_are_cut_wherever_they_are_at_the_door(step: SharedIngress) -> None:
    calls = [step.call() for _ in range(3)]
    await calls[1].send(TUNNEL[:10])
    await calls[2].send(TUNNEL)
    assert status(await calls[2].read()) == 200
    step.door.cut(lambda who: who.pod_uid == "other", "identity.gone")
    await asyncio.sleep(0.01)
    assert step.door.connections("pod") == 3
    step.door.cut(lambda who: who.pod_uid == "p-uid", "identity.gone")
    for call in calls:
        assert await call.read() == b""
        call.sock.close()
    # Only one had said where it wanted to go.
    assert step.codes == ["identity.gone"]
    assert step.door.connections("pod") == 0
    assert not step.door._cut_codes
