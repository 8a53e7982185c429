"""A peer that no watch has told of costs one question, and the questions of all peers together are few."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from egress.cluster import pod_lookup
from egress.cluster.pod_lookup import BURST, REMEMBERED_SECONDS, PodLookup
from egress.cluster.streamed_get import ApiTimeouts
from egress.kubernetes.watch_events import WatchedObject, WatchKind
from tests.cluster.fake_api_server import FakeApiServer, running
from tests.unit.kubernetes.watch_samples import plain_pod

ADDRESS = "10.0.0.1"


class Asking:
    """A lookup, and the pods that it found."""

    def __init__(self) -> None:
        self.server = FakeApiServer()
        self.server.put(WatchKind.PODS, plain_pod("p", 0, ADDRESS))
        self.found: list[str] = []
        self.seconds = 0.0
        self.lookup: PodLookup

    def note(self, pods: tuple[WatchedObject, ...]) -> None:
        self.found += [each.metadata.name for each in pods]

    @property
    def questions(self) -> int:
        return len(self.server.requests)


@asynccontextmanager
async def running_lookup(folder: Path) -> AsyncIterator[Asking]:
    asking = Asking()
    async with running(folder, asking.server) as api:
        asking.lookup = PodLookup(api, asking.note, lambda: asking.seconds)
        yield asking


@pytest.fixture
async def asking(tmp_path: Path) -> AsyncIterator[Asking]:
    async with running_lookup(tmp_path) as asking:
        yield asking


async def test_the_pods_at_an_address_are_told(asking: Asking) -> None:
    assert await asking.lookup.ask(ADDRESS)
    assert asking.found == ["p"]
    assert asking.server.requests == ["/api/v1/namespaces/agents/pods?fieldSelector=status.podIP%3D10.0.0.1"]
    assert await asking.lookup.ask("10.0.0.9")
    assert asking.found == ["p"]


async def test_many_connections_from_one_address_cost_one_question(asking: Asking) -> None:
    spellings = [ADDRESS, f"::ffff:{ADDRESS}"] * 10
    assert all(await asyncio.gather(*map(asking.lookup.ask, spellings)))
    assert await asking.lookup.ask(ADDRESS)
    assert asking.questions == 1
    asking.seconds += REMEMBERED_SECONDS
    assert await asking.lookup.ask(ADDRESS)
    assert asking.questions == 2


async def test_a_flood_of_addresses_costs_few_questions_and_nobody_is_told_wrong(asking: Asking) -> None:
    answers = await asyncio.gather(*(asking.lookup.ask(f"10.1.0.{number}") for number in range(100)))
    assert (answers.count(True), asking.questions) == (BURST, BURST)
    assert not await asking.lookup.ask(ADDRESS)
    asking.seconds += 0.2
    assert await asking.lookup.ask(ADDRESS)


async def test_no_more_addresses_are_remembered_than_there_is_room_for(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_lookup, "MAX_REMEMBERED", 1)
    assert await asking.lookup.ask(ADDRESS)
    assert not await asking.lookup.ask("10.0.0.2")
    assert len(asking.lookup._asked) == 1


@pytest.mark.parametrize("fault", ["status", "raw", "silence", "size"])
async def test_no_answer_is_no_answer(asking: Asking, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "status":
        asking.server.status = 403
    elif fault == "raw":
        asking.server.raw = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"
    elif fault == "size":
        monkeypatch.setattr(pod_lookup, "MAX_ANSWER_BYTES", 10)
    else:
        monkeypatch.setattr(pod_lookup, "LOOKUP_TIMEOUTS", ApiTimeouts(silence=0.05))
        asking.server.is_silent = True
    assert not await asking.lookup.ask(ADDRESS)
    assert asking.found == []


async def test_what_is_no_address_is_not_asked_for(asking: Asking) -> None:
    assert await asking.lookup.ask("")
    assert asking.questions == 0
