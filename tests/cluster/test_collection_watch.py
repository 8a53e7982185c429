"""Three watches keep a map true against an API server that misbehaves in every way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from egress.cluster import collection_watch
from egress.cluster.collection_watch import MISSING_ANSWERS, CollectionWatch
from egress.cluster.streamed_get import ApiTimeouts
from egress.kubernetes import watched_collection
from egress.kubernetes.identity_map import IdentityMap
from egress.kubernetes.pod_identity import IdentityFault, IdentityState, PodIdentity
from egress.kubernetes.watch_events import EventType, WatchKind
from tests.cluster.fake_api_server import END_OF_WATCH, FakeApiServer, running
from tests.unit.kubernetes.watch_samples import claim, owner, plain_pod, pod, sandbox

PODS, SANDBOXES, CLAIMS = WatchKind.PODS, WatchKind.SANDBOXES, WatchKind.CLAIMS
ADDRESS = "10.0.0.1"
CLAIM = owner("SandboxClaim", "c")


@dataclass
class Watching:
    """A map, its watches, and what they said."""

    server: FakeApiServer
    identities: IdentityMap = field(default_factory=IdentityMap)
    cut: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        found = self.identities.find(ADDRESS)
        return found.state if isinstance(found, PodIdentity) else found

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():  # noqa: ASYNC110 - the map is a value and tells nobody
                await asyncio.sleep(0.005)

    async def becomes(self, state: str) -> None:
        await self.until(lambda: self.state == state)


def claimed_cluster() -> FakeApiServer:
    server = FakeApiServer()
    server.put(SANDBOXES, sandbox("s", 0, CLAIM))
    server.put(CLAIMS, claim("c", 0, "s", "reviewer"))
    server.put(PODS, pod("p", 0, ADDRESS))
    return server


@asynccontextmanager
async def watching(
    folder: Path, server: FakeApiServer, timeouts: ApiTimeouts | None = None
) -> AsyncIterator[Watching]:
    found = Watching(server)
    async with running(folder, server) as api, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                CollectionWatch(
                    api,
                    kind,
                    found.identities,
                    found.cut.update,
                    found.notes.append,
                    timeouts or ApiTimeouts(),
                    pause=0.01,
                    missing_pause=0.05,
                ).run()
            )
            for kind in WatchKind
        ]
        yield found
        for task in tasks:
            task.cancel()


async def test_lists_in_pages_and_then_events(tmp_path: Path) -> None:
    server = claimed_cluster()
    server.page_size = 1
    server.put(PODS, pod("q", 0, "10.0.0.2"))
    async with watching(tmp_path, server) as found:
        await found.becomes(IdentityState.CLAIMED)
        assert isinstance(found.identities.find("10.0.0.2"), PodIdentity)
        server.put(PODS, pod("p", 0, ADDRESS), EventType.DELETED)
        await found.becomes(IdentityFault.UNKNOWN)
        assert found.cut == {"p-uid"}
    assert not found.notes
    assert any("continue=1" in each for each in server.requests)
    assert all("/namespaces/agents/" in each for each in server.requests)


async def test_a_watch_that_ends_in_order_goes_on_without_a_list(tmp_path: Path) -> None:
    server = claimed_cluster()
    async with watching(tmp_path, server) as found:
        await found.becomes(IdentityState.CLAIMED)
        await found.until(lambda: len(server.watchers) == len(WatchKind))
        lists = _lists(server)
        server.raw = END_OF_WATCH
        server.put(CLAIMS, claim("c", 0, "s", "admin"))
        await found.until(lambda: sum("watch=1" in each for each in server.requests) == len(WatchKind) + 1)
        assert found.cut == {"p-uid"}
        assert _lists(server) == lists
        assert found.state == IdentityState.CLAIMED
    assert not found.notes
    # From the version of the bookmark, not from that of the list.
    assert server.requests[-1].split("resourceVersion=")[1].split("&")[0] == "4"


async def test_a_watch_goes_on_from_a_list_where_many_deletions_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_collection, "MANY_TOMBSTONES", 1)
    server = claimed_cluster()
    server.put(PODS, pod("q", 0, "10.0.0.2"))
    async with watching(tmp_path, server) as found:
        await found.becomes(IdentityState.CLAIMED)
        await found.until(lambda: len(server.watchers) == len(WatchKind))
        server.put(PODS, pod("q", 0, "10.0.0.2"), EventType.DELETED)
        await found.until(lambda: found.identities.is_list_due(PODS))
        lists = _lists(server)
        # Nobody is denied meanwhile: what is known is right, and only long.
        assert found.state == IdentityState.CLAIMED
        server.raw = END_OF_WATCH
        server.put(PODS, pod("p", 0, ADDRESS))
        await found.until(lambda: not found.identities.is_list_due(PODS))
        assert (_lists(server), found.state) == (lists + 1, IdentityState.CLAIMED)
    assert not found.notes


def _lists(server: FakeApiServer) -> int:
    return sum("watch=1" not in each for each in server.requests)


@pytest.mark.parametrize(
    "raw",
    [b"", b"4\r\n{bad\r\n", b"6\r\n{bad}\n\r\n", b"zz\r\n", b'14\r\n{"type":"ADDED"}  \n\r\n'],
    ids=["cut", "half", "no-event", "no-chunk", "no-object"],
)
async def test_a_watch_that_ends_otherwise_denies_until_the_next_list(tmp_path: Path, raw: bytes) -> None:
    server = claimed_cluster()
    async with watching(tmp_path, server) as found:
        await found.becomes(IdentityState.CLAIMED)
        await found.until(lambda: len(server.watchers) == len(WatchKind))
        server.status = 500
        server.raw = raw
        server.put(CLAIMS, claim("c", 0, "s", "reviewer"))
        await found.becomes(IdentityFault.STALE)
        # Deleted while nobody watched: only the list can tell.
        server.put(CLAIMS, claim("c", 0, "s"), EventType.DELETED)
        server.status = 200
        await found.becomes(IdentityFault.PENDING)
        assert found.cut == {"p-uid"}
    assert found.notes


async def test_a_version_that_is_too_old_is_listed_anew(tmp_path: Path) -> None:
    server = claimed_cluster()
    async with watching(tmp_path, server) as found:
        await found.becomes(IdentityState.CLAIMED)
        await found.until(lambda: len(server.watchers) == len(WatchKind))
        server.oldest = 10_000
        server.cut()
        await found.until(lambda: any("with 410" in each for each in found.notes))
        server.oldest = 0
        await found.becomes(IdentityState.CLAIMED)


async def test_no_right_to_list_denies_and_is_told(tmp_path: Path) -> None:
    server = claimed_cluster()
    server.status = 403
    async with watching(tmp_path, server) as found:
        await found.until(lambda: len(found.notes) >= len(WatchKind))
        assert found.state == IdentityFault.STALE
    assert any("403 to /apis/extensions.agents.x-k8s.io/v1beta1" in each for each in found.notes)


async def test_a_silent_watch_is_lost(tmp_path: Path) -> None:
    server = claimed_cluster()
    async with watching(tmp_path, server, ApiTimeouts(silence=1.0)) as found:
        await found.becomes(IdentityState.CLAIMED)
        await found.until(lambda: any("is lost" in each for each in found.notes))


async def test_pages_and_events_that_are_too_long_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_watch, "MAX_PAGE_BYTES", 10)
    async with watching(tmp_path, claimed_cluster()) as found:
        await found.until(lambda: any("page" in each for each in found.notes))
    monkeypatch.undo()
    monkeypatch.setattr(collection_watch, "MAX_EVENT_BYTES", 10)
    server = claimed_cluster()
    async with watching(tmp_path, server) as found:
        await found.until(lambda: len(server.watchers) == len(WatchKind))
        server.raw = b"b\r\nnot yet end\r\n"
        server.put(PODS, pod("q", 0))
        await found.until(lambda: any("an event of" in each for each in found.notes))
    monkeypatch.undo()
    monkeypatch.setattr(collection_watch, "MAX_LISTED_OBJECTS", 0)
    async with watching(tmp_path, claimed_cluster()) as found:
        await found.until(lambda: any("more than 0 pods" in each for each in found.notes))


async def test_a_cluster_without_agent_sandbox_has_plain_pods_and_learns_later(
    tmp_path: Path,
) -> None:
    server = claimed_cluster()
    server.put(PODS, plain_pod("job", 0, "10.0.0.2"))
    server.missing = {SANDBOXES, CLAIMS}
    async with watching(tmp_path, server) as found:
        await found.until(lambda: isinstance(found.identities.find("10.0.0.2"), PodIdentity))
        # Whoever says that it belongs to a sandbox is denied, for as long as none is known.
        assert found.state == IdentityFault.PENDING
        server.missing = set()
        await found.becomes(IdentityState.CLAIMED)
    assert sorted(found.notes) == ["this cluster has no sandboxclaims", "this cluster has no sandboxes"]


async def test_a_kind_that_was_there_is_gone_only_after_several_answers(tmp_path: Path) -> None:
    """An API server that starts says for a moment that it does not know any."""
    server = claimed_cluster()
    server.put(PODS, plain_pod("job", 0, "10.0.0.2"))
    async with watching(tmp_path, server) as found:
        await found.becomes(IdentityState.CLAIMED)
        await found.until(lambda: len(server.watchers) == len(WatchKind))
        server.missing = {CLAIMS}
        server.cut()
        await found.becomes(IdentityFault.STALE)
        assert found.identities.find("10.0.0.2") is IdentityFault.STALE
        await found.until(lambda: "this cluster has no sandboxclaims" in found.notes)
        lost = [each for each in found.notes if "404 to" in each]
        assert len(lost) == MISSING_ANSWERS - 1
        assert found.cut == {"p-uid"}
        await found.until(lambda: isinstance(found.identities.find("10.0.0.2"), PodIdentity))


async def test_pods_are_in_every_cluster(tmp_path: Path) -> None:
    server = claimed_cluster()
    server.missing = {PODS}
    async with watching(tmp_path, server) as found:
        await found.until(lambda: sum("the watch of pods is lost" in each for each in found.notes) > 5)
        assert found.state == IdentityFault.STALE
