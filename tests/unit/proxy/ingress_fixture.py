"""A door for tests: real rules, lanes that only note who arrives, and clients on a pair of sockets.

Nobody here uses the network: where tests refuse it, they show that the door does not either.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from egress.audit.reported_facts import RefusalFacts
from egress.proxy.event_loop import make_turns
from egress.proxy.ingress.limits import IngressLimits
from egress.proxy.ingress.listener import Authentication, Listener, ListenerKind
from egress.proxy.ingress.ports import Lanes
from egress.proxy.ingress.server import IngressServer
from egress.proxy.lanes.connection import AdmittedConnection
from egress.rules.decide import limits
from egress.rules.decide.policy import Policy
from egress.shares.pool import SharePool
from egress.shares.turns import Turns
from egress.types import HostDecision, Identity, Limit
from tests.unit.rules.rule_samples import NOW, policy

RULES = """
    hosts:
      api.example.com: {}
      ported.example.com: {ports: [443, 8443]}
      plain.example.com: {http: [80, 8080]}
      only-plain.example.com: {ports: [], http: [80]}
      pinned.example.com: {intercept: never}
      closed.example.com: {allow: []}
      "*.static.example.com": {}
      few.example.com: {limits: {connections: 1}}
    networks:
      - {cidr: 192.0.2.0/24}
      - {cidr: "2001:db8::/32"}
"""

QUICK = IngressLimits(linger_time=0.2, close_time=5.0)
"""Nobody lingers for long in a test, and nothing else is ever waited for."""

CARRIED = b"carried by "

_STATUS = re.compile(rb"^HTTP/1\.1 ([0-9]{3}) ", re.MULTILINE)
_CODE = re.compile(rb"^egress-denied: ([a-z._]+)\r$", re.MULTILINE)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> int:
        return NOW

    def now_ns(self) -> int:
        return NOW * 1_000_000_000

    def monotonic(self) -> float:
        return self.seconds


class FakeAudit:
    """Keeps refusals; may be told to say that it cannot."""

    def __init__(self) -> None:
        self.refusals: list[RefusalFacts] = []
        self.works = True

    def may_work(self, sandbox: str) -> bool:
        return self.works

    def refusal(self, refusal: RefusalFacts) -> None:
        self.refusals.append(refusal)

    @property
    def codes(self) -> list[str]:
        return [refusal.code for refusal in self.refusals]


class FakeCounts:
    def __init__(self) -> None:
        self.open: dict[limits.Key, int] = {}

    def acquire(self, sandbox: str, bounds: tuple[Limit, ...]) -> bool:
        taken = limits.acquire_connection(self.open, sandbox, bounds)
        self.open.update(taken.changes)
        return taken.allowed

    def release(self, sandbox: str, bounds: tuple[Limit, ...]) -> None:
        self.open.update(limits.release_connection(self.open, sandbox, bounds))


@dataclass
class FakeSandbox:
    identity: Identity


@dataclass
class FakeEngine:
    """What the door is wired to."""

    policy: Policy = field(default_factory=lambda: policy(RULES))
    clock: Clock = field(default_factory=Clock)
    counts: FakeCounts = field(default_factory=FakeCounts)
    audit: FakeAudit = field(default_factory=FakeAudit)
    sandboxes: Mapping[str, FakeSandbox] = field(
        default_factory=lambda: {name: FakeSandbox(Identity(name)) for name in ("box", "other")}
    )
    stopping: bool = False
    ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    pool: SharePool = field(default_factory=SharePool)
    turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        self.turns = make_turns(self.clock.monotonic)

    def new_id(self) -> str:
        return f"c{next(self.ids)}"

    def canary_denial(self, _: str, *__: str) -> HostDecision | None:
        """No canaries here: those are in tests/proxy/test_canaries.py."""
        return None


class FakeLane:
    """A lane that notes what arrives, says its name to the client, and lets go; or holds on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arrivals: list[AdmittedConnection] = []
        self.ahead: list[bytes] = []
        self.held: asyncio.Event | None = None
        self.fault: Exception | None = None

    async def carry(
        self,
        admitted: AdmittedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ahead: bytes,
    ) -> None:
        self.arrivals.append(admitted)
        self.ahead.append(ahead)
        if self.fault is not None:
            raise self.fault
        writer.write(CARRIED + self.name.encode())
        if self.held is not None:
            await self.held.wait()


class IngressFixture:
    """A door, and visitors for it."""

    def __init__(self, house: FakeEngine | None = None, bounds: IngressLimits = QUICK) -> None:
        self.house = house or FakeEngine()
        self.full, self.tunnel = FakeLane("full"), FakeLane("tunnel")
        self.door = IngressServer(self.house, Lanes(self.tunnel.carry, self.full.carry), bounds)
        self._sockets: list[socket.socket] = []

    @property
    def arrivals(self) -> list[AdmittedConnection]:
        return self.full.arrivals + self.tunnel.arrivals

    @property
    def ahead(self) -> list[bytes]:
        return self.full.ahead + self.tunnel.ahead

    @property
    def codes(self) -> list[str]:
        return self.house.audit.codes

    @property
    def last(self) -> RefusalFacts:
        """The one refusal there is."""
        [refusal] = self.house.audit.refusals
        return refusal

    def listener(
        self,
        kind: ListenerKind = "proxy",
        port: int = 3128,
        sandbox: str = "box",
        authentication: Authentication = "network",
        password: bytes = b"",
    ) -> Listener:
        # Nobody connects to it: visitors come by a pair of sockets.
        unbound = socket.socket()
        self._sockets.append(unbound)
        return Listener(kind, kind, sandbox, unbound, authentication, password, given_port=port)

    def call(self, listener: Listener | None = None) -> Call:
        """Begin a visit."""
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        theirs.settimeout(0)
        return Call(self.door.take(listener or self.listener(), theirs), ours)

    async def ask(self, *parts: bytes, listener: Listener | None = None, ends: bool = True) -> bytes:
        """Send parts, each after something came back for the one before; return all that came back."""
        call = self.call(listener)
        said = b""
        for part in parts[:-1]:
            await call.send(part)
            said += await call.read()
        await call.send(parts[-1])
        if ends:
            call.end()
        return said + await call.rest()

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


class Call:
    """A client's side of one connection."""

    def __init__(self, task: asyncio.Task[None], sock: socket.socket) -> None:
        self.task = task
        self.sock = sock
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> bool:
        """Send it all; whether the other side took it."""
        try:
            await self._loop.sock_sendall(self.sock, data)
        except OSError:
            return False
        return True

    async def read(self) -> bytes:
        try:
            return await self._loop.sock_recv(self.sock, 65536)
        except OSError:
            return b""

    def end(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    async def rest(self) -> bytes:
        """Read to the end, and wait until the door is done with it."""
        said = b""
        while data := await self.read():
            said += data
        await self.task
        self.sock.close()
        return said

    async def hang_up(self) -> None:
        self.sock.close()
        await self.task


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that nobody announces."""
    while not holds():  # noqa: ASYNC110 - it is the state of the system, or of code that has no event for it
        await asyncio.sleep(0.001)


# What clients say -------------------------------------------------------------------------------


def connect(target: str, *lines: str, host: str | None = None) -> bytes:
    """A CONNECT; its Host is the target unless another is given."""
    host = target if host is None else host
    return "\r\n".join([f"CONNECT {target} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode("latin-1")


def get(target: str, host: str, *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode("latin-1")


def status(answer: bytes) -> int:
    """The status of the last answer; 0 where there is none."""
    found = _STATUS.findall(answer)
    return int(found[-1]) if found else 0


def code(answer: bytes) -> str:
    """The code in an answer, as the sandbox sees it."""
    found = _CODE.findall(answer)
    return found[-1].decode() if found else ""
