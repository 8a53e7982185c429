"""Rules that are replaced while requests are under way: at night hundreds of times, under ten thousand.

Each request is decided by one of them as a whole: the rule that let it through, what was injected and the
digest in its record belong together, and no request falls between two of them.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path

from tests.conftest import IS_NIGHTLY
from tests.faults.proxy_lab import API, SECRET, ProxyLab
from tests.proxy.lab.proxy_stack import policy_of
from tests.proxy.lab.upstream_request import UpstreamRequest

REQUESTS = 10_000 if IS_NIGHTLY else 2_500
RELOADS = 200 if IS_NIGHTLY else 50
CLIENTS = 16
TOGETHER = 25
"""Requests that a client sends at once."""


def rules(folder: Path, port: int, number: int) -> str:
    """Two rules, each with an injection of its own; all of it says which of the many rules these are."""
    return f"""\
version: 1
secrets:
  tracker: {{from: "file:{folder}/secret", hosts: ["{API}:{port}"]}}
hosts:
  {API}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: even-{number}, paths: ["/noted/even/**"]}}
      - {{id: odd-{number}, paths: ["/noted/odd/**"]}}
    inject:
      - header: {{name: x-even, secret: tracker, format: "even-{number} {{}}"}}
        for: [even-{number}]
      - header: {{name: x-odd, secret: tracker, format: "odd-{number} {{}}"}}
        for: [odd-{number}]
"""


class Storm:
    """Clients, the one who replaces the rules, and what the upstream gets to see."""

    def __init__(self, estate: ProxyLab) -> None:
        self.estate = estate
        self.got: dict[str, str] = {}
        """By path, the rule that an injected header told of."""
        self.answered: Counter[int] = Counter()
        self.digests: dict[str, int] = {}
        self.asked = 0
        estate.api._wants = ""
        estate.api.handle("/noted", self.note)

    @property
    def is_over(self) -> bool:
        return self.asked >= REQUESTS and len(self.digests) >= RELOADS

    async def note(self, visit: UpstreamRequest) -> None:
        await visit.body()
        found = [
            value for name in ("x-even", "x-odd") for value in visit.request.headers(name) if SECRET in value
        ]
        assert visit.request.path not in self.got
        self.got[visit.request.path] = " ".join(found)
        await visit.answer(b"noted")

    async def replace(self) -> None:
        """Bring rules into force, again and again; each time the answer says that they are."""
        estate, number = self.estate, 0
        while not self.is_over:
            number += 1
            text = rules(estate.folder, estate.api.port, number)
            estate.served.write(text)
            _, said = await estate.ask("POST", "/reload")
            digest = policy_of(text).digest
            # Noticing the file may have been quicker.
            assert said["result"] in {"loaded", "unchanged"}
            assert said["policy"] == digest
            self.digests[digest] = number

    async def client(self, name: str) -> None:
        async with await self.estate.visit() as peer:
            number = 0
            while not self.is_over:
                batch = []
                for _ in range(TOGETHER):
                    number += 1
                    path = f"/noted/{'odd' if number % 2 else 'even'}/{name}-{number}"
                    batch.append(f"GET {path} HTTP/1.1\r\nhost: {self.estate.host(API)}\r\n\r\n".encode())
                self.asked += len(batch)
                self.answered.update(response.status for response in await peer.pipeline(*batch))

    async def never(self) -> None:
        """What none of them allows."""
        async with await self.estate.visit() as peer:
            while not self.is_over:
                response = await peer.get("/never", self.estate.host(API))
                assert response.header("egress-denied") == "rule.none"
                await asyncio.sleep(0.1)


async def test_each_request_is_decided_by_one_whole_policy(tmp_path: Path) -> None:
    async with ProxyLab.of(tmp_path) as estate:
        storm = Storm(estate)
        first = rules(tmp_path, estate.api.port, 0)
        estate.served.write(first)
        await estate.ask("POST", "/reload")
        storm.digests[policy_of(first).digest] = 0
        async with asyncio.TaskGroup() as group:
            group.create_task(storm.replace())
            group.create_task(storm.never())
            for number in range(CLIENTS):
                group.create_task(storm.client(f"c{number}"))
        assert storm.answered == {200: storm.asked}
        await estate.ask("POST", "/stop")
        assert await asyncio.to_thread(estate.served.ended) == 0
        lines = [line for line in estate.served.records("exchange") if line["path"] != "/never"]
        assert Counter(str(line["path"]) for line in lines) == dict.fromkeys(storm.got, 1)
        for line in lines:
            check(line, storm)
        assert len({line["policy"] for line in lines}) > RELOADS // 4, "the storm met the requests"
        loaded = [str(line["policy"]) for line in estate.served.records("reloaded")]
        assert [storm.digests[each] for each in loaded] == list(range(len(loaded)))
        checked = await asyncio.to_thread(estate.served.egress, "log", "verify")
        assert checked.status == 0, checked


def check(line: dict[str, object], storm: Storm) -> None:
    """One record: rule, digest and what was injected are of the same rules."""
    number = storm.digests[str(line["policy"])]
    kind = str(line["path"]).split("/")[2]
    assert line["rule"] == f"{API}#{kind}-{number}"
    assert re.fullmatch(rf"{kind}-{number} {SECRET}", storm.got[str(line["path"])])
    assert line["injected"] == [{"secret": "tracker", "slot": f"header:x-{kind}"}]
