"""Claims that come and go: `python -m bench.kubernetes.churn GATEWAY SECONDS RATE [unasked]`.

It prints numbers as JSON. Of every nine claims, one asks with cheap requests until the gateway knows its
rights, one makes its first real request over a new connection, again until it is allowed, and of one that
ends a connection is watched that the gateway has to cut. All times begin with the event that the API server
writes. With `unasked` there are no clients, so that all that the gateway does is to watch.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Coroutine

from bench.kubernetes.cluster_link import ClusterLink, News
from bench.kubernetes.pod_client import PodClient
from bench.kubernetes.setting import Gateway
from bench.proxy.process import cpu_seconds, resident
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import RefusedError

PATIENCE = 10.0
PAUSE = 0.001


class Churn:
    """One run."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._client = PodClient(gateway)
        self._delays: dict[str, list[float]] = {"claimed": [], "ready": [], "ended": []}
        self._ended: dict[str, asyncio.Future[float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float, rate: float, *, asks: bool) -> dict[str, float]:
        link = await ClusterLink.to(self._gateway)
        before = await link.order("nothing")
        loop = asyncio.get_running_loop()
        began, cpu = time.monotonic(), cpu_seconds(self._gateway.pid)
        found: dict[str, float] = {}

        def look() -> None:
            share = (cpu_seconds(self._gateway.pid) - cpu) / (time.monotonic() - began)
            found.update(cpu_share=share, memory_mib=resident(self._gateway.pid))

        loop.call_later(seconds, look)
        after = await link.order("churn", self._told if asks else None, rate=rate, seconds=seconds)
        await asyncio.gather(*self._tasks)
        link.close()
        for name, delays in self._delays.items():
            ordered = sorted(delays) or [0.0]
            found[f"{name}_p50_ms"] = ordered[len(ordered) // 2] * 1e3
            found[f"{name}_p99_ms"] = ordered[len(ordered) * 99 // 100] * 1e3
        for name in ("claims", "events", "bytes"):
            found[name] = after[name] - before[name]
        return found

    def _told(self, news: News) -> None:
        address, at = news["address"], news["at"]
        match news["what"]:
            case "claimed":
                self._begin(self._ask(address, at))
            case "ready":
                self._begin(self._work(address, at))
            case "ending":
                self._ended[address] = asyncio.get_running_loop().create_future()
                self._begin(self._watch(address))
            case "ended":
                self._ended[address].set_result(at)

    def _begin(self, story: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(story))

    async def _ask(self, address: str, at: float) -> None:
        while await self._client.refusal(address) != "host.unknown":
            await self._wait_again(address, at)
        self._delays["claimed"].append(time.monotonic() - at)

    async def _work(self, address: str, at: float) -> None:
        while not await self._is_allowed(address):
            await self._wait_again(address, at)
        self._delays["ready"].append(time.monotonic() - at)

    async def _is_allowed(self, address: str) -> bool:
        try:
            async with await self._client.visit(address) as peer:
                return (await peer.get("/small", self._client.host)).status == 200
        except (RefusedError, EndedError, ConnectionError):
            return False

    async def _wait_again(self, address: str, at: float) -> None:
        if time.monotonic() > at + PATIENCE:
            sys.exit(f"{address} has no rights {PATIENCE:.0f} s after it was claimed")
        await asyncio.sleep(PAUSE)

    async def _watch(self, address: str) -> None:
        reader, writer = await self._client.open(address)
        try:
            async with asyncio.timeout(PATIENCE):
                await reader.read()
        except ConnectionError:
            pass
        except TimeoutError:
            sys.exit(f"a connection of {address} was not cut")
        now = time.monotonic()
        self._delays["ended"].append(now - await self._ended.pop(address))
        writer.close()


if __name__ == "__main__":
    churn = Churn(Gateway.of(sys.argv[1]))
    run = churn.run(float(sys.argv[2]), float(sys.argv[3]), asks="unasked" not in sys.argv)
    print(json.dumps(asyncio.run(run)))
