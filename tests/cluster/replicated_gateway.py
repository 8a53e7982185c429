"""Two replicas of a gateway behind one Service: one API server, one upstream, one authority, two logs.

The Service is a stand-in for kube-proxy: it leads a client to the replica that it had, as long as that one
was ready when it was last looked at, which is every half second.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from egress.ca import new_authority_file
from egress.proxy.clock import SystemClock
from tests.cli.command import put
from tests.cluster.gateway_lab import PODS, GatewayLab, outcome, readiness
from tests.proxy.injecting_proxy import NAME
from tests.proxy.lab.certificates import trusting
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, RefusedError, connect
from tests.proxy.serve_process import ServeProcess, until
from tests.unit.kubernetes.watch_samples import plain_pod

GATEWAYS: Final = ("127.77.0.1", "127.77.0.2")
NAMES: Final = ("egress-proxy-0", "egress-proxy-1")
LOOK_SECONDS: Final = 0.5


class ReplicatedGateway:
    """The replicas, from the first to the end of both."""

    def __init__(self, folder: Path, drain: str) -> None:
        key = put(folder / "audit.key", "")
        key.write_bytes(os.urandom(32))
        authority = new_authority_file("gateway", SystemClock().now())
        file = put(folder / "authority.pem", authority.decode())
        for each in (key, file):
            each.chmod(0o400)
        words = ["--authority-file", str(file), "--audit-key", str(key), "--drain", drain]
        # The port that is told is one of many: readiness is at the address of each replica.
        self.lab = GatewayLab(folder, *words, "--ready", "0.0.0.0:0")
        self.key, self.folder = key, folder
        self.authority = authority[authority.index(b"-----BEGIN CERTIFICATE") :]

    def __enter__(self) -> Self:
        self.lab.__enter__()
        self.lab.authority = self.authority
        (self.folder / "second").mkdir()
        second = self.lab.process(self.folder / "second", GATEWAYS[1], NAMES[1])
        second.start()
        self.replicas = (self.lab.served, second)
        self.find_ready_ports()
        return self

    def __exit__(self, *_: object) -> None:
        self.replicas[1].__exit__()
        self.lab.__exit__()

    def find_ready_ports(self) -> None:
        self.ready_ports = tuple(map(_ready_port, self.replicas))

    async def is_ready(self, number: int) -> bool:
        with suppress(OSError, IndexError):
            return (await readiness(self.ready_ports[number], GATEWAYS[number]))[0] == 200
        return False

    async def become_ready(self, number: int) -> None:
        async with asyncio.timeout(30):
            while not await self.is_ready(number):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.05)

    def at(self, number: int) -> tuple[str, int]:
        """Where a replica serves."""
        return GATEWAYS[number], self.replicas[number].port


def _ready_port(served: ServeProcess) -> int:
    return int(str(until(lambda: served.logged("proxy.ready"))[-1]["ready"]).rpartition(":")[2])


@dataclass
class Service:
    """The Service in front of the replicas."""

    gateway: ReplicatedGateway
    ready: list[bool] = field(default_factory=lambda: [True, True])

    async def look(self) -> None:
        """Look at the replicas until the task is cancelled."""
        while True:
            self.ready = [await self.gateway.is_ready(number) for number in (0, 1)]
            await asyncio.sleep(LOOK_SECONDS)

    def choose(self, before: int) -> int:
        """Return the replica for a client that had one before."""
        return before if self.ready[before] or not self.ready[1 - before] else 1 - before


@dataclass
class LoadedPod:
    """A pod that makes one request after the other over connections that it keeps."""

    service: Service
    name: str
    replica: int = 0
    pause: float = 0.02
    """Seconds from one request to the next."""
    tries: int = 2
    """How often a request is made whose connection ends without an answer."""
    answered: list[str] = field(default_factory=list)
    retried: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    """Seconds from the first try of each request to its answer."""
    peer: Peer | None = None

    def __post_init__(self) -> None:
        lab = self.service.gateway.lab
        self.address = lab.address()
        lab.put(PODS, plain_pod(self.name, 0, self.address))

    async def work(self) -> None:
        """Ask until the task is cancelled."""
        try:
            await self._work()
        finally:
            await self.drop()

    async def drop(self) -> None:
        peer, self.peer = self.peer, None
        if peer is not None:
            await peer.channel.drop()

    async def _work(self) -> None:
        number = 0
        while True:
            number += 1
            path, began = f"/work/{self.name}-{number}", time.monotonic()
            for attempt in range(self.tries):
                try:
                    self.peer = self.peer or await self.connect()
                    response = await self.peer.get(f"{path}-{attempt}", self.service.gateway.lab.host)
                except (OSError, EndedError, RefusedError) as error:
                    await self.drop()
                    if attempt + 1 == self.tries:
                        self.failures.append(f"{path}: {error!r}")
                    self.retried.append(path)
                    continue
                if outcome(response) != (404, ""):
                    self.failures.append(f"{path}: {outcome(response)}")
                self.waits.append(time.monotonic() - began)
                self.answered.append(f"{path}-{attempt}")
                if (response.header("connection") or "").lower() == "close":
                    await self.drop()
                break
            await asyncio.sleep(max(0.0, began + self.pause - time.monotonic()))

    async def connect(self) -> Peer:
        gateway = self.service.gateway
        self.replica = self.service.choose(self.replica)
        to, trust = ("127.0.0.1", gateway.lab.upstream.port), trusting(gateway.authority, ("http/1.1",))
        try:
            return await connect(to, NAME, trust, proxy=gateway.at(self.replica), source=self.address)
        except (OSError, EndedError):
            # A node leads a client elsewhere where nobody listens any more.
            self.replica = 1 - self.replica
            return await connect(to, NAME, trust, proxy=gateway.at(self.replica), source=self.address)

    async def works_on(self, count: int) -> None:
        """Wait for more answers."""
        goal = len(self.answered) + count
        async with asyncio.timeout(60):
            while len(self.answered) < goal:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
