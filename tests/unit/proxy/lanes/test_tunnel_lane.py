"""A tunnel takes a ticket before it dials and gives exactly one line; what sends nothing is a refusal."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field

import pytest

from egress.address_check import OwnNetworks
from egress.audit.reported_facts import AuditStoppedError, Intent, RefusalFacts, Ticket
from egress.audit.reported_facts import TunnelFacts as Line
from egress.exchange import Destination
from egress.proxy.clock import SystemClock
from egress.proxy.event_loop import make_turns
from egress.proxy.lanes.connection import AdmittedConnection, LiveConnections
from egress.proxy.lanes.dial import Dialer
from egress.proxy.lanes.resolve import SystemResolver
from egress.proxy.lanes.tunnel_lane import TunnelEnd, TunnelLane, TunnelTimeouts
from egress.proxy.metrics import Metrics
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide_host
from egress.shares.pool import Capacity, Resource, SharePool
from egress.shares.turns import Turns
from egress.tls.client_hello import ClientHello
from egress.types import Identity, Verdict

HOST = "pinned.example.com"
FOUND = load([RuleText("hosts.yaml", f"version: 1\nhosts:\n  {HOST}: {{intercept: never}}\n")]).policy


@dataclass
class Audit:
    """Everything that is told to it."""

    is_stopped: bool = False
    openings: list[Intent] = field(default_factory=list)
    tunnels: list[tuple[Ticket | None, Line]] = field(default_factory=list)
    refusals: list[RefusalFacts] = field(default_factory=list)

    def begin(self, opening: Intent) -> Ticket:
        if self.is_stopped:
            raise AuditStoppedError("full")
        self.openings.append(opening)
        return Ticket(len(self.openings))

    def tunnel(self, ticket: Ticket | None, value: Line) -> None:
        self.tunnels.append((ticket, value))

    def refusal(self, value: RefusalFacts) -> None:
        self.refusals.append(value)


@dataclass
class Engine:
    """As much of one as the lane needs, with a dialer that finds no address."""

    audit: Audit = field(default_factory=Audit)
    clock: SystemClock = field(default_factory=SystemClock)
    live: LiveConnections = field(default_factory=LiveConnections)
    pool: SharePool = field(default_factory=SharePool)

    @property
    def turns(self) -> Turns:
        return make_turns(self.clock.monotonic)

    @property
    def dialer(self) -> Dialer:
        resolver = SystemResolver(self.clock.monotonic, look_up=lambda _: ())
        return Dialer(resolver, OwnNetworks, self.clock)


def admitted(hello: ClientHello | None) -> AdmittedConnection:
    assert FOUND is not None
    who = Identity("box", "p")
    decision = decide_host(FOUND, who, HOST, 443, 0)
    return AdmittedConnection(
        "c1", who, "l", "connect", Destination("https", HOST, 443), decision, FOUND, hello
    )


async def carried(engine: Engine, hello: ClientHello | None) -> bytes:
    """What a client reads to the end whose connection is carried."""
    lane = TunnelLane(engine, TunnelTimeouts())
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await lane.carry(admitted(hello), reader, writer, b"")
        served.set()

    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader, serve)
    await loop.connect_accepted_socket(lambda: protocol, ours)
    client, writer = await asyncio.open_connection(sock=theirs)
    data = await client.read()
    await served.wait()
    writer.close()
    await writer.wait_closed()
    return data


HELLO = ClientHello(sni=HOST)


async def test_a_tunnel_that_dials_has_a_ticket_and_one_line() -> None:
    engine = Engine()
    await carried(engine, HELLO)
    (opening,) = engine.audit.openings
    assert (opening.sandbox, opening.host, opening.port) == ("box", HOST, 443)
    ((ticket, line),) = engine.audit.tunnels
    assert ticket is not None
    assert (line.code, line.request, line.sni) == ("upstream.unresolved", opening.request, HOST)
    assert line.verdict is Verdict.ALLOW, "it failed, and Egress did not stop it"
    assert engine.audit.refusals == []


async def test_a_client_that_is_turned_away_at_once_is_a_refusal_without_a_ticket() -> None:
    engine = Engine()
    await carried(engine, ClientHello(sni=HOST, encrypted=True))
    assert engine.audit.openings == []
    assert engine.audit.tunnels == []
    assert [refusal.code for refusal in engine.audit.refusals] == ["request.mismatch"]


async def test_nothing_is_dialled_that_cannot_be_recorded() -> None:
    engine = Engine(Audit(is_stopped=True))
    assert await carried(engine, HELLO) == b""
    assert engine.audit.tunnels == []
    assert [refusal.code for refusal in engine.audit.refusals] == ["audit.stopped"]


async def test_tunnels_of_one_sandbox_are_bounded_with_its_requests_and_leave_room_for_others() -> None:
    engine = Engine()
    engine.pool = SharePool(exchanges=Capacity(100, 2))
    busy = engine.pool.account("box")
    assert busy.take(Resource.EXCHANGES, 2)
    assert await carried(engine, HELLO) == b""
    assert [refusal.code for refusal in engine.audit.refusals] == ["limit.exchanges"]
    assert engine.audit.openings == []
    busy.close()
    await carried(engine, HELLO)
    assert len(engine.audit.tunnels) == 1
    assert engine.pool.sandboxes == set(), "what it took is given back"


def test_a_tunnel_that_came_to_its_own_end_says_why_it_was_allowed() -> None:
    engine = Engine()
    lane = TunnelLane(engine, TunnelTimeouts())
    lane._tickets["c1"] = Ticket(7)
    lane._record(TunnelEnd(admitted(HELLO), "", "client", "192.0.2.1", 10, 20, 1, 2, 3, ""))
    ((_, line),) = engine.audit.tunnels
    assert line.code == "host.allowed"
    assert (line.bytes_up, line.bytes_down, line.address) == (10, 20, "192.0.2.1")
    assert (line.durations.resolve, line.durations.connect, line.durations.total) == (1, 2, 3)


@pytest.mark.parametrize(
    ("code", "up", "verdict"),
    [
        ("", 0, Verdict.ALLOW),
        ("", 10, Verdict.ALLOW),
        ("upstream.unreachable", 0, Verdict.ALLOW),
        ("address.refused", 0, Verdict.DENY),
        ("access.withdrawn", 0, Verdict.DENY),
        ("access.withdrawn", 10, Verdict.CUT),
        ("internal", 10, Verdict.CUT),
        ("proxy.stopping", 10, Verdict.CUT),
    ],
)
def test_a_tunnel_that_egress_ended_is_denied_or_cut(code: str, up: int, verdict: Verdict) -> None:
    engine, metrics = Engine(), Metrics()
    lane = TunnelLane(engine, TunnelTimeouts(), metrics)
    lane._tickets["c1"] = Ticket(7)
    lane._record(TunnelEnd(admitted(HELLO), code, "proxy", "10.0.0.7", up, 0, 1, 2, 3, ""))
    ((_, line),) = engine.audit.tunnels
    assert (line.verdict, line.address) == (verdict, "10.0.0.7")
    assert line.code == (code or "host.allowed")
    assert sum(metrics._tunnels.values()) == (verdict is not Verdict.DENY)
