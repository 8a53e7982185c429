"""Events are written where they may be, and nothing waits for one that cannot be."""

from __future__ import annotations

import asyncio
from pathlib import Path

from egress.cluster.event_writer import (
    MAX_MESSAGE_CHARS,
    MAX_WAITING_EVENTS,
    ClusterEvent,
    EventWriter,
    ObjectReference,
)
from tests.cluster.fake_api_server import running
from tests.cluster.fake_object_server import FakeObjectServer, gone, until

ABOUT = ObjectReference("ConfigMap", "rules", "u-1", version="7")


async def test_an_event_is_about_its_object(tmp_path: Path) -> None:
    server = FakeObjectServer()
    async with running(tmp_path, server) as api:
        notes: list[str] = []
        writer = EventWriter(api, "egress-0", notes.append, lambda: 0)
        task = asyncio.create_task(writer.run())
        writer.tell(ClusterEvent(ABOUT, "RulesRefused", "a\nb" + "é" * 2000, "Warning"))
        await until(lambda: server.events)
        task.cancel()
        await gone(server)
    (event,) = server.events
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "agents",
        "name": "rules",
        "uid": "u-1",
        "resourceVersion": "7",
    }
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "RulesRefused", 1)
    assert event["reportingInstance"] == event["source"]["host"] == "egress-0"
    assert event["firstTimestamp"] == "1970-01-01T00:00:00Z"
    assert event["message"].startswith("a bé")
    assert len(event["message"].encode()) <= MAX_MESSAGE_CHARS
    assert notes == []
    assert server.requests == ["POST /api/v1/namespaces/agents/events"]


async def test_an_event_that_is_refused_is_told_and_the_next_one_is_written(tmp_path: Path) -> None:
    server = FakeObjectServer(event_status=403)
    async with running(tmp_path, server) as api:
        notes: list[str] = []
        writer = EventWriter(api, "egress-0", notes.append, lambda: 0)
        task = asyncio.create_task(writer.run())
        writer.tell(ClusterEvent(ABOUT, "RulesLoaded", "first"))
        await until(lambda: notes)
        server.event_status = 201
        writer.tell(ClusterEvent(ABOUT, "RulesLoaded", "second"))
        await until(lambda: len(server.events) == 2)
        await until(lambda: not writer._waiting.qsize())
        task.cancel()
        await gone(server)
    assert notes == ["the API server answers 403 to POST /api/v1/namespaces/agents/events"]


async def test_events_that_nobody_takes_are_dropped_and_raise_nothing(tmp_path: Path) -> None:
    notes: list[str] = []
    async with running(tmp_path, FakeObjectServer()) as api:
        writer = EventWriter(api, "egress-0", notes.append, lambda: 0)
        for number in range(MAX_WAITING_EVENTS + 2):
            writer.tell(ClusterEvent(ABOUT, "RulesLoaded", str(number)))
    assert notes == ["too many Events wait"] * 2
