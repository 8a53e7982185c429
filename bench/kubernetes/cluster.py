"""The cluster as a process: `python -m bench.kubernetes.cluster FOLDER` serves its API, and changes if told.

It writes the port of the API to `FOLDER/port`, and what a pod is given to `FOLDER/account`. Clients tell it
at `FOLDER/cluster.sock` what is to happen, a line of JSON each, and are told with lines of JSON what has
happened, and when by the clock of the machine.

    {"do": "stand", "claimed": 1000, "pooled": 150}     make sandboxes that stand
    {"do": "churn", "rate": 45, "seconds": 60}          so many claims a second; each replaces the oldest one
    {"do": "come", "address": ADDRESS, "profile": NAME} a claimed pod at an address of the client's choice
    {"do": "release", "pod": NAME}                      its end, in three steps
    {"do": "finish", "pod": NAME}
    {"do": "remove", "pod": NAME}
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from bench.kubernetes.busy_api_server import BusyApiServer
from bench.kubernetes.cluster_objects import NAMESPACE
from bench.kubernetes.sandbox_life import SandboxLife
from tests.cluster.fake_api_server import running

type Order = dict[str, Any]
type Tell = Callable[[str, SandboxLife], None]

SAMPLED: Final = 9
"""Clients are told of every ninth claim in each of two ways, and of every ninth end."""
WARNING_SECONDS: Final = 1.0
ENDING_SECONDS: Final = 1.0
LABEL_SECONDS: Final = 0.3


class Cluster:
    """The sandboxes of a namespace."""

    def __init__(self, server: BusyApiServer) -> None:
        self._server = server
        self._numbers = itertools.count(1)
        self._pooled: deque[SandboxLife] = deque()
        self._claimed: deque[SandboxLife] = deque()
        self._placed: dict[str, SandboxLife] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._claims = 0

    async def obey(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Do what one client wants, and tell it."""

        def say(**facts: object) -> None:
            writer.write(json.dumps({"at": time.monotonic(), **facts}).encode() + b"\n")

        while line := await reader.readline():
            order: Order = json.loads(line)
            found = await self._do(order, lambda what, life: say(what=what, address=life.address))
            counts = {"events": self._server.sent_events, "bytes": self._server.sent_bytes}
            say(what="done", claims=self._claims, **counts, **found)
            await writer.drain()
        writer.close()

    async def _do(self, order: Order, tell: Tell) -> dict[str, str]:
        match order["do"]:
            case "stand":
                await self._stand(order["claimed"], order["pooled"])
            case "churn":
                await self._churn(order["rate"], order["seconds"], tell)
            case "come":
                life = self._life(order["address"], order["profile"])
                await life.fill(at_once=True)
                await life.adopt(at_once=True)
                self._placed[life.pod_name] = life
                return {"pod": life.pod_name, "uid": life.pod_uid}
            case "release":
                self._placed[order["pod"]].release()
            case "finish":
                self._placed[order["pod"]].finish()
            case "remove":
                self._placed.pop(order["pod"]).remove()
        return {}

    def _life(self, address: str = "", profile: str = "") -> SandboxLife:
        return SandboxLife(self._server, next(self._numbers), address, profile)

    async def _stand(self, claimed: int, pooled: int) -> None:
        for number in range(claimed + pooled):
            life = self._life()
            await life.fill(at_once=True)
            self._pooled.append(life)
            if number < claimed:
                await self._adopt(at_once=True)

    async def _adopt(self, *, at_once: bool = False) -> SandboxLife:
        life = self._pooled.popleft()
        await life.adopt(at_once=at_once)
        self._claimed.append(life)
        return life

    async def _churn(self, rate: float, seconds: float, tell: Tell) -> None:
        """Let claims come at random moments; for each, the pool is filled up and the oldest claim ends."""
        chance = random.Random(45)
        began = when = time.monotonic()
        for number in itertools.count():
            when += chance.expovariate(rate)
            if when > began + seconds:
                break
            await asyncio.sleep(max(0.0, when - time.monotonic()))
            turn = number % SAMPLED
            self._begin(self._claim({0: "claimed", 3: "ready"}.get(turn, ""), tell))
            self._begin(self._end(self._claimed.popleft(), tell if turn == 6 else None))
            self._begin(self._fill())
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, story: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(story)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _claim(self, what: str, tell: Tell) -> None:
        life = await self._adopt()
        self._claims += 1
        if what:
            tell(what, life)
        await asyncio.sleep(LABEL_SECONDS)
        life.label()

    async def _fill(self) -> None:
        life = self._life()
        await life.fill()
        self._pooled.append(life)

    async def _end(self, life: SandboxLife, tell: Tell | None) -> None:
        if tell:
            tell("ending", life)
        await asyncio.sleep(WARNING_SECONDS)
        if tell:
            tell("ended", life)
        life.release()
        await asyncio.sleep(ENDING_SECONDS)
        life.finish()
        life.remove()


async def serve(folder: Path) -> None:
    account, server = folder / "account", BusyApiServer()
    account.mkdir()
    (account / "namespace").write_text(NAMESPACE, encoding="ascii")
    async with running(account, server) as api:
        await asyncio.start_unix_server(Cluster(server).obey, folder / "cluster.sock")
        part = folder / "port.part"
        part.write_text(str(api.port), encoding="ascii")
        part.rename(folder / "port")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
