"""Few addresses, many pods: `python -m bench.kubernetes.reuse GATEWAY REUSES` prints numbers as JSON.

An address goes from one claimed pod to the next within a tenth of a second, and the API tells it in each of
the orders in which it can: the old pod is gone before the new one comes, has only ended, or is still said to
live. A client begins when the gate of its pod would let it: the gateway says that it knows this pod. Each
request has the name of its pod in its path, so that the log shows under which name it went; each other pod
has another profile, so that it shows with whose rights. Connections of the old pod stay open, and have to be
of no use by then.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bench.kubernetes.cluster_link import ClusterLink
from bench.kubernetes.pod_client import PodClient
from bench.kubernetes.setting import MARKERS, PROFILES, Gateway
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, RefusedError

ADDRESSES = ("127.63.0.1", "127.63.0.2", "127.63.0.3")
REQUESTS = 3
LONGEST_GAP = 0.1
PATIENCE = 20.0
KNOWN_CODE = "rule.none"
"""The answer to a client whose profile has the host, and whose request no rule allows."""
ORDERS = (
    ("release", "finish", "remove", "COME"),
    ("release", "finish", "COME", "remove"),
    ("COME", "release", "finish", "remove"),
)


class Reuse:
    """One run."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._client = PodClient(gateway)
        self._chance = random.Random(17)
        self._sent: Counter[str] = Counter()
        self._profiles: dict[str, str] = {}
        self._uids: dict[str, str] = {}
        self._outlived = 0

    async def run(self, reuses: int) -> dict[str, float]:
        each = [
            reuses // len(ADDRESSES) + (place < reuses % len(ADDRESSES)) for place in range(len(ADDRESSES))
        ]
        await asyncio.gather(*(self._at(*pair) for pair in zip(ADDRESSES, each, strict=True)))
        return await self._judge() | {"reuses": reuses, "outlived": self._outlived}

    async def _at(self, address: str, reuses: int) -> None:
        """The pods of one address, one after the other."""
        link = await ClusterLink.to(self._gateway)
        pod = await self._come(link, address, 0)
        kept = await self._work(address, pod, 0)
        for number in range(1, reuses + 1):
            old = pod
            for step in self._chance.choice(ORDERS):
                if step == "COME":
                    await asyncio.sleep(self._chance.uniform(0, LONGEST_GAP))
                    pod = await self._come(link, address, number)
                else:
                    await link.order(step, pod=old)
            before, kept = kept, await self._work(address, pod, number)
            await self._try(before, old)
        await kept.channel.drop()
        link.close()

    async def _come(self, link: ClusterLink, address: str, number: int) -> str:
        profile = PROFILES[number % 2]
        news = await link.order("come", address=address, profile=profile)
        pod = str(news["pod"])
        self._profiles[pod], self._uids[pod] = profile, str(news["uid"])
        return pod

    async def _work(self, address: str, pod: str, number: int) -> Peer:
        """Wait for the gate and then for the rights, ask on new connections, and return the last one."""
        end = time.monotonic() + PATIENCE
        while not await self._client.passes_gate(address, self._uids[pod]):
            await self._wait(pod, end)
        while await self._client.refusal(address, MARKERS[number % 2]) != KNOWN_CODE:
            await self._wait(pod, end)
        for _ in range(REQUESTS - 1):
            async with await self._client.visit(address) as peer:
                await self._ask(peer, pod)
        peer = await self._client.visit(address)
        await self._ask(peer, pod)
        return peer

    async def _wait(self, pod: str, end: float) -> None:
        if time.monotonic() > end:
            sys.exit(f"the gateway does not know {pod}")
        await asyncio.sleep(0.002)

    async def _ask(self, peer: Peer, pod: str) -> None:
        await peer.get(f"/pods/{pod}", self._client.host)
        self._sent[pod] += 1

    async def _try(self, peer: Peer, pod: str) -> None:
        """A connection of a pod that is gone: nothing may come of it."""
        try:
            await self._ask(peer, pod)
            self._outlived += 1
        except (EndedError, RefusedError, OSError):
            pass
        finally:
            await peer.channel.drop()

    async def _judge(self) -> dict[str, float]:
        """Compare the log with what was sent, once the log has all of it or time is up."""
        end = time.monotonic() + 10
        lines = list(self._lines())
        while len(lines) < self._sent.total() and time.monotonic() < end:
            # The log is a file, which tells nobody.
            await asyncio.sleep(0.2)
            lines = list(self._lines())
        wrong = sum(line["pod"] != pod or line["profile"] != self._profiles[pod] for pod, line in lines)
        return {"requests": self._sent.total(), "wrong": wrong, "missing": self._sent.total() - len(lines)}

    def _lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The lines of the log that are about these requests, with the pod that has sent them."""
        for file in sorted(self._gateway.log.glob("*.jsonl")):
            for text in file.read_text(encoding="utf-8").split("\n")[:-1]:
                if '"/pods/' in text:
                    line = json.loads(text)
                    yield line["path"].removeprefix("/pods/"), line


if __name__ == "__main__":
    print(json.dumps(asyncio.run(Reuse(Gateway.of(sys.argv[1])).run(int(sys.argv[2])))))
