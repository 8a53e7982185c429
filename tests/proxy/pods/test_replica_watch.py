"""What a replica tells the others, and what it makes of their reports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from egress.cluster.api_server import ClusterApi
from egress.cluster.event_writer import ClusterEvent, EventWriter
from egress.kubernetes.identity_map import IdentityMap
from egress.kubernetes.replica_lag import ReplicaLag
from egress.kubernetes.replica_reach import ReplicaReach
from egress.kubernetes.replica_report import MAX_REPORT_BYTES, ReplicaReport, RulesVersion, encode_report
from egress.kubernetes.watch_events import WatchKind
from egress.proxy.clock import SystemClock
from egress.proxy.pods import replica_watch
from egress.proxy.pods.replica_watch import ReplicaWatch
from egress.proxy.setting_values import ListenAddress
from tests.cluster.test_replicas import gateway_pod
from tests.unit.kubernetes.watch_samples import listed

SIBLING = "127.78.0.2"


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> list[ClusterEvent]:
    """The Events that would be written."""
    found: list[ClusterEvent] = []
    monkeypatch.setattr(replica_watch, "POLL_INTERVAL", 0.01)
    monkeypatch.setattr(EventWriter, "tell", lambda _self, event: found.append(event))
    return found


def watch(port: int, rules: RulesVersion | None, patience: float = 60) -> ReplicaWatch:
    identities = IdentityMap()
    pods = (gateway_pod("egress-proxy-0", "127.78.0.1"), gateway_pod("egress-proxy-1", SIBLING))
    for kind in WatchKind:
        identities.replace(listed(kind, 9, *(pods if kind is WatchKind.PODS else ())))
    events = EventWriter(ClusterApi("127.0.0.1", 1, "agents", Path("no")), "egress-proxy-0", print, lambda: 0)
    at = ListenAddress("127.78.0.1", port)
    digest, version = (lambda: "aa"), (lambda: rules)
    return ReplicaWatch(
        "egress-proxy-0",
        at,
        identities,
        events,
        digest,
        version,
        SystemClock(),
        ReplicaLag(0),
        ReplicaReach(patience),
    )


@asynccontextmanager
async def sibling(answer: bytes) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, SIBLING, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def answer(report: ReplicaReport) -> bytes:
    body = encode_report(report).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


AHEAD = ReplicaReport("egress-proxy-1", ready=True, digest="bb", taken=1, versions={"rules": 8})


async def hears(data: bytes, rules: RulesVersion | None) -> list[str]:
    """The problems of a replica whose sibling answers so."""
    async with sibling(data) as port:
        found = watch(port, rules)
        task = asyncio.create_task(found.run())
        await asyncio.sleep(0.3)
        task.cancel()
        assert not task.done() or task.cancelled(), "it ended by itself"
        return found.problems()


async def test_newer_rules_of_another_replica_make_this_one_late_and_are_told_once(
    told: list[ClusterEvent],
) -> None:
    problems = await hears(answer(AHEAD), RulesVersion(7, 0))
    assert problems == ["egress-proxy-1 knows newer rules for more than 0 seconds"]
    [event] = told
    assert (event.reason, event.about.name, event.type) == ("ReplicaBehind", "egress-proxy-0", "Warning")


@pytest.mark.parametrize(
    ("data", "rules"),
    [
        (answer(AHEAD), RulesVersion(8, 0)),
        (answer(AHEAD), None),
        (answer(ReplicaReport("egress-proxy-1", True, "aa", 1, {"rules": 8})), RulesVersion(7, 0)),
        (answer(ReplicaReport("egress-proxy-0", True, "bb", 1, {"rules": 8})), RulesVersion(7, 0)),
        (answer(ReplicaReport("egress-proxy-1", False, "bb", 1, {"rules": 8})), RulesVersion(7, 0)),
        (answer(AHEAD).replace(b"200 OK", b"404 Not Found"), RulesVersion(7, 0)),
        (answer(AHEAD)[:-1], RulesVersion(7, 0)),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n" + b" " * MAX_REPORT_BYTES * 2,
            None,
        ),
        (b"\0" * 4096, RulesVersion(7, 0)),
        (b"", RulesVersion(7, 0)),
    ],
    ids=["version", "files", "rules", "itself", "not-ready", "refused", "cut", "endless", "garbage", "none"],
)
async def test_anything_else_makes_nobody_late(
    told: list[ClusterEvent], data: bytes, rules: RulesVersion | None
) -> None:
    assert await hears(data, rules) == []
    assert told == []


def test_a_report_tells_the_rules_and_the_newest_changes() -> None:
    found = watch(1, RulesVersion(7, 1234))
    assert json.loads(found.report(ready=False)) == {
        "replica": "egress-proxy-0",
        "ready": False,
        "digest": "aa",
        "taken": 1234,
        "versions": {"rules": 7, "pods": 0, "sandboxes": 0, "sandboxclaims": 0, "sandboxtemplates": 0},
    }


ITSELF = ReplicaReport("egress-proxy-0", ready=True, digest="aa", taken=1, versions={})


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (answer(AHEAD).replace(b"200 OK", b"404 Not Found"), "without a report"),
        (answer(AHEAD)[:-1], ""),
        (answer(ITSELF), "it has the name of this replica"),
        (b"", ""),
    ],
    ids=["refused", "cut", "itself", "none"],
)
async def test_a_replica_that_gives_no_report_is_told_and_this_one_stays_ready(
    told: list[ClusterEvent], data: bytes, cause: str
) -> None:
    async with sibling(data) as port:
        found = watch(port, None, patience=0)
        task = asyncio.create_task(found.run())
        async with asyncio.timeout(30):
            while not told:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        task.cancel()
        [silent] = found.silent
    assert (silent.address, found.compared, found.problems()) == (SIBLING, 0, [])
    assert cause in silent.cause
    [event] = told
    assert (event.reason, event.about.name, event.type) == ("ReplicaSilent", "egress-proxy-0", "Warning")
    assert f"not compared with {SIBLING}" in event.message
    assert f"reach each other at the port {port}" in event.message


async def test_a_replica_out_of_reach_is_told_once_and_again_when_it_is_heard(
    told: list[ClusterEvent],
) -> None:
    """Its port is closed first, as behind a network policy, and opens then."""
    async with sibling(b"") as port:
        pass
    found = watch(port, None, patience=0)
    task = asyncio.create_task(found.run())

    async def until(reasons: list[str]) -> None:
        async with asyncio.timeout(30):
            while [event.reason for event in told] != reasons:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)

    await until(["ReplicaSilent"])
    assert "connection refused" in found.silent[0].cause
    await asyncio.sleep(0.1)
    await until(["ReplicaSilent"])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(AHEAD))
        writer.close()

    async with await asyncio.start_server(serve, SIBLING, port):
        await until(["ReplicaSilent", "ReplicaHeard"])
    task.cancel()
    assert told[-1].type == "Normal"
    assert (found.silent, found.compared) == ((), 1)
