"""A sandbox beside one that wants all there is: it is served within a few rounds, and they stay short.

Nothing here is judged by time: the clock of the proxy goes on by a step each time that somebody looks at it,
and whoever works looks at it between small steps. A round is one pass of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from egress.ca.authority import Authority
from egress.proxy.clock import SystemClock
from egress.proxy.event_loop import FairEventLoop
from egress.proxy.ingress.listener import Listener, listen
from egress.proxy.lanes.engine import ServedSandbox
from egress.shares import turns
from egress.shares.turns import TURN_SECONDS
from egress.types import Identity
from tests.proxy.lab.certificates import Certificates, trusting
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, at, connect
from tests.proxy.lab.proxy_stack import NAME, OTHER, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream, Say
from tests.tiers import ALSO
from tests.unit.proxy.ingress_fixture import until

VICTIM: Final = "victim"
CONNECTIONS: Final = 24
ASKED: Final = 12
MAX_ROUNDS: Final = 60
"""Rounds from a request of the victim to its answer; the upstream and both clients take part in them."""
MAX_STEPS_PER_ROUND: Final = 200
MAX_BYTES_PER_ROUND: Final = 1536 * 1024
"""A few reads of a few connections."""
RULES: Final = f"""
version: 1
hosts:
  {NAME}: {{ports: [PORT], addresses: [127.0.0.1/32], allow: [{{id: some, paths: [/small, /bytes]}}]}}
  {OTHER}: {{ports: [PORT], addresses: [127.0.0.1/32], intercept: never}}
"""

certs = Certificates()


class CountingClock(SystemClock):
    """A clock that goes on when it is looked at: fifty times are a turn."""

    def __init__(self) -> None:
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return 1000.0 + self.looks * TURN_SECONDS / 50


class Scene:
    """A proxy with two sandboxes, and what the neighbour got of it so far."""

    def __init__(
        self,
        stack: ProxyStack,
        upstream: RawUpstream,
        proxy: tuple[str, int],
        pem: bytes,
        clock: CountingClock,
    ) -> None:
        self.stack = stack
        self.clock = clock
        self.upstream = upstream
        self._proxy = proxy
        self._pem = pem
        self.came = 0

    async def victim(self) -> Peer:
        trust = trusting(self._pem, ("http/1.1",))
        return await connect(at(self.upstream.port), NAME, trust, proxy=self._proxy)

    async def neighbour(self, name: str = NAME) -> Peer:
        trust = self.stack.trust("http/1.1") if name == NAME else certs.trust(("http/1.1",))
        return await connect(at(self.upstream.port), name, trust, proxy=self.stack.proxy)

    def asks(self, path: str, *fields: str, host: str = NAME) -> bytes:
        lines = [f"GET {path} HTTP/1.1", f"host: {host}:{self.upstream.port}", *fields]
        return "\r\n".join([*lines, "", ""]).encode()

    async def drain(self, peer: Peer) -> None:
        """Take whatever comes, as it is on the wire: reading TLS would wait for what is being sent."""
        with suppress(EndedError, OSError):
            while data := await peer.channel._reader.read(1 << 16):
                self.came += len(data)


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(RawUpstream(certs.good(NAME, OTHER)))
        upstream.keeps_log = False
        upstream.script("/small", Say(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"))
        rules = RULES.replace("PORT", str(upstream.port))
        clock = CountingClock()
        proxy = await stack.enter_async_context(ProxyStack(folder, certs, rules, clock=clock))
        authority = Authority.create(VICTIM, proxy.clock.now())
        proxy.engine.sandboxes[VICTIM] = ServedSandbox(Identity(VICTIM), authority, bytes(32))
        listener = Listener(VICTIM, "proxy", VICTIM, listen("127.0.0.1", 0))
        _, port = await proxy.door.open(listener)
        yield Scene(proxy, upstream, at(port), authority.certificate_pem, clock)


# What neighbours do ---------------------------------------------------------------------------------


async def pour(it: Scene, data: bytes, name: str = NAME) -> None:
    """Say all of this at once, and take whatever comes, over and over."""
    peer = await it.neighbour(name)
    reading = asyncio.ensure_future(it.drain(peer))
    try:
        while not reading.done():
            await peer.send(data)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await peer.channel.drop()


async def denied_requests(it: Scene) -> None:
    await pour(it, it.asks("/denied") * 500)


async def downloads(it: Scene) -> None:
    await pour(it, it.asks("/bytes?n=8000000"))


async def tunnels(it: Scene) -> None:
    await pour(it, it.asks("/bytes?n=8000000", host=OTHER), OTHER)


KINDS: Final[dict[str, Callable[[Scene], Coroutine[None, None, None]]]] = {
    "denied requests": denied_requests,
    "downloads": downloads,
    "tunnels": tunnels,
}


class Measured(NamedTuple):
    """The most rounds that the victim waited, and the most that came of its neighbour in one of them."""

    rounds: int
    steps: float
    bytes: float


async def measured(folder: Path, kind: str) -> Measured:
    async def over_and_over(it: Scene) -> None:
        while True:
            with suppress(OSError, EndedError):
                await KINDS[kind](it)

    found: list[Measured] = []
    async with scene(folder) as it, await it.victim() as victim:
        engine, request = it.stack.engine, it.asks("/small")
        assert (await victim.request(request)).body == b"hello"
        tasks = [asyncio.ensure_future(over_and_over(it)) for _ in range(CONNECTIONS)]
        await until(lambda: it.came > 20_000)
        for _ in range(ASKED):
            began, looks, came = engine.turns.round, it.clock.looks, it.came
            assert (await victim.request(request)).body == b"hello"
            rounds = engine.turns.round - began
            found.append(Measured(rounds, (it.clock.looks - looks) / rounds, (it.came - came) / rounds))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return Measured(*(max(each) for each in zip(*found, strict=True)))


def run(folder: Path, kind: str) -> Measured:
    with asyncio.Runner(loop_factory=FairEventLoop) as runner:
        return runner.run(measured(folder, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_victim_is_served_within_a_few_short_rounds(tmp_path: Path, kind: str) -> None:
    found = run(tmp_path, kind)
    assert found.rounds <= MAX_ROUNDS
    assert found.steps <= MAX_STEPS_PER_ROUND
    assert found.bytes <= MAX_BYTES_PER_ROUND


@pytest.mark.parametrize("kind", [pytest.param("denied requests", marks=ALSO), "downloads"])
def test_without_turns_the_rounds_are_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The control: a turn that lasts for ever, and no rest, is what there was before."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 3600.0)
    monkeypatch.setattr(turns, "BURST_SECONDS", 3600.0)
    monkeypatch.setattr(turns.SandboxTurns, "events", 1 << 20)
    found = run(tmp_path, kind)
    assert found.steps > MAX_STEPS_PER_ROUND or found.bytes > MAX_BYTES_PER_ROUND
