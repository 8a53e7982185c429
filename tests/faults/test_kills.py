"""The proxy is killed while it works, again and again: SIGKILL, at a moment that chance chooses.

After each start the log has to tell of every request that reached an upstream, once: in a line of its own,
or as lost. And of nothing that was never begun.

Chance chooses as its seed says. For a long run, with another seed each time (it is printed where it fails):
`EGRESS_TEST_KILLS=200 EGRESS_TEST_KILLS_SEED=$RANDOM python -m pytest tests/faults/test_kills.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.proxy_lab import API, BLIND, OPEN, STREAMS, ProxyLab
from tests.faults.seeded_random import SeededRandom
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import RefusedError
from tests.proxy.lab.http2 import Http2Client

ROUNDS = int(os.environ.get("EGRESS_TEST_KILLS", "4"))  # noqa: TID251 - how long a run may take
SEED = int(os.environ.get("EGRESS_TEST_KILLS_SEED", "1"))  # noqa: TID251 - and where it goes
AT_ONCE = 6
"""Clients of each kind."""


@dataclass
class Books:
    """What clients know of their requests."""

    begun: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    tunnels: int = 0
    """So many were asked for."""


class Crowd:
    """Clients that go on until the proxy is gone."""

    def __init__(self, estate: ProxyLab, books: Books, name: str) -> None:
        self.estate = estate
        self.books = books
        self.name = name
        self.numbers = iter(range(1_000_000))

    async def until_the_end(self, talk: Callable[[], Awaitable[None]]) -> None:
        try:
            while True:
                await talk()
        except (OSError, EndedError, RefusedError):
            pass

    def path(self, kind: str = "small") -> str:
        path = f"/{kind}/{self.name}-{next(self.numbers)}"
        self.books.begun.add(path)
        return path

    async def keep_alive(self) -> None:
        async with await self.estate.visit(API) as peer:
            for _ in range(20):
                path = self.path()
                response = await peer.get(path, self.estate.host(API))
                assert response.status == 200
                self.books.answered.add(path)

    async def streams(self) -> None:
        peer = await self.estate.visit(STREAMS, "h2")
        try:
            async with Http2Client(peer.channel) as client:
                await asyncio.gather(*(self.stream(client) for _ in range(20)))
        finally:
            await peer.channel.drop()

    async def stream(self, client: Http2Client) -> None:
        path = self.path()
        stream = await client.get(self.estate.host(STREAMS), path)
        if stream.complete:
            assert stream.status == 200
            self.books.answered.add(path)

    async def tunnel(self) -> None:
        self.books.tunnels += 1
        async with await self.estate.visit(BLIND) as peer:
            for _ in range(10):
                assert (await peer.get("/echo/x", self.estate.host(OPEN))).status == 200


@pytest.mark.timeout(90 + 30 * ROUNDS)
@pytest.mark.parametrize("seed", [SEED])
async def test_what_reached_an_upstream_is_told_exactly_once(tmp_path: Path, seed: int) -> None:
    chance, books = SeededRandom("kill", seed), Books()
    async with ProxyLab.of(tmp_path) as estate:
        for number in range(ROUNDS):
            await live_and_die(estate, books, chance, f"r{number}")
            estate.served.start()
            compare(estate, books)
        assert await estate.is_well()
        checked = await asyncio.to_thread(estate.served.egress, "log", "verify")
        assert checked.status == 0, checked
        gaps = {line["kind"] for line in estate.served.records("gap")}
        assert gaps <= {"killed"}


async def live_and_die(estate: ProxyLab, books: Books, chance: SeededRandom, name: str) -> None:
    crowds = [Crowd(estate, books, f"{name}c{number}") for number in range(AT_ONCE)]
    talks = [talk for crowd in crowds for talk in (crowd.keep_alive, crowd.streams, crowd.tunnel)]
    enough = len(books.answered) + chance.randrange(60, 400)
    async with asyncio.TaskGroup() as group:
        for crowd, talk in zip([each for each in crowds for _ in range(3)], talks, strict=True):
            group.create_task(crowd.until_the_end(talk))
        while len(books.answered) < enough:  # noqa: ASYNC110 - clients tell nobody
            await asyncio.sleep(0.001)
        await asyncio.sleep(chance.random() * 0.01)
        estate.served.process.kill()
    estate.served.kill()


def compare(estate: ProxyLab, books: Books) -> None:
    """The log with what upstreams have seen, and with what clients have begun."""
    lines = estate.served.records()
    told = Counter(str(line["path"]) for line in lines if line["event"] == "exchange")
    lost = [line for line in lines if line["event"] == "lost"]
    assert not [path for path, count in told.items() if count > 1]
    assert told.keys() <= books.begun
    seen = {path for path in estate.seen if path in books.begun}
    requests = [line for line in lost if line["method"]]
    untold = seen - told.keys()
    assert len(untold) <= sum(bool(line["sent"]) for line in requests), untold
    assert len(requests) <= len(books.begun - told.keys())
    assert all(line["secrets"] == ["tracker"] for line in requests)
    ids = [line["request"] for line in lines if "request" in line]
    assert len(set(ids)) == len(ids)
    tunnels = sum(line["event"] == "tunnel" or not line.get("method", "x") for line in lines)
    assert tunnels <= books.tunnels
