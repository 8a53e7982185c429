"""One object is followed by its name, through every way in which a watch ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from egress.cluster import object_watch
from egress.cluster.object_watch import ObjectWatch
from egress.cluster.streamed_get import ApiTimeouts
from egress.kubernetes import named_object
from egress.kubernetes.named_object import NamedObject
from tests.cluster.fake_api_server import END_OF_WATCH, running
from tests.cluster.fake_object_server import FakeObjectServer, gone, until

META = {"namespace": "agents", "uid": "u", "resourceVersion": "99"}


@dataclass
class Followed:
    server: FakeObjectServer
    taken: list[str | None] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def take(self, found: NamedObject | None) -> None:
        self.taken.append(None if found is None else (found.data or {})["k"])

    async def sees(self, value: str | None) -> None:
        await until(lambda: self.taken[-1:] == [value], f"{value}: {self.taken} {self.lost}")


@asynccontextmanager
async def following(
    folder: Path, server: FakeObjectServer, timeouts: ApiTimeouts | None = None
) -> AsyncIterator[Followed]:
    found = Followed(server)
    async with running(folder, server) as api:
        watch = ObjectWatch(
            api, "configmaps", "m", found.take, found.lost.append, timeouts or ApiTimeouts(), pause=0.01
        )
        task = asyncio.create_task(watch.run())
        yield found
        task.cancel()
        await gone(server)


async def test_every_change_of_the_object_comes_and_no_other(tmp_path: Path) -> None:
    server = FakeObjectServer()
    async with following(tmp_path, server) as found:
        await found.sees(None)
        server.set("configmaps", "m", {"k": "1"})
        await found.sees("1")
        server.set("configmaps", "other", {"k": "other"})
        server.set("secrets", "m", {"k": "secret"})
        server.set("configmaps", "m", {"k": "2"})
        await found.sees("2")
        server.delete("configmaps", "m")
        await found.sees(None)
        server.set("configmaps", "m", {"k": "3"})
        await found.sees("3")
    assert found.taken == [None, "1", "2", None, "3"]
    assert found.lost == []
    # Neither a list of the collection, nor another verb than get and watch.
    for each in server.requests:
        assert each.startswith("GET ")
        assert "/configmaps/m" in each or "fieldSelector=metadata.name%3Dm" in each


async def test_a_watch_that_ends_in_order_is_no_loss(tmp_path: Path) -> None:
    server = FakeObjectServer()
    server.set("configmaps", "m", {"k": "1"})
    async with following(tmp_path, server) as found:
        await until(lambda: server.watchers)
        server.raw = END_OF_WATCH
        server.set("configmaps", "other", {"k": "x"})
        await until(lambda: sum("watch=1" in each for each in server.requests) == 2)
        server.set("configmaps", "m", {"k": "2"})
        await found.sees("2")
    assert found.lost == []


@pytest.mark.parametrize(
    "raw",
    [b"", b"4\r\n{bad\r\n", b"6\r\n{bad}\n\r\n", b"zz\r\n", b'14\r\n{"type":"ADDED"}  \n\r\n'],
    ids=["cut", "half", "no-event", "no-chunk", "no-object"],
)
async def test_a_watch_that_ends_otherwise_is_told_and_the_object_is_read_again(
    tmp_path: Path, raw: bytes
) -> None:
    server = FakeObjectServer()
    server.set("configmaps", "m", {"k": "1"})
    async with following(tmp_path, server) as found:
        await until(lambda: server.watchers)
        server.raw = raw
        server.set("configmaps", "other", {"k": "x"})
        await until(lambda: found.lost)
        server.set("configmaps", "m", {"k": "2"})
        await found.sees("2")
    assert found.lost[0].startswith("configmaps/m is not watched: ")


async def test_an_old_version_and_an_answer_that_is_no_success_are_told(tmp_path: Path) -> None:
    server = FakeObjectServer(oldest=9)
    server.set("configmaps", "m", {"k": "1"})
    async with following(tmp_path, server) as found:
        await until(lambda: any("410" in each for each in found.lost))
        server.oldest, server.status = 0, 403
        server.cut()
        await until(lambda: any("403" in each for each in found.lost))
        assert None not in found.taken
        server.status = 200
        server.set("configmaps", "m", {"k": "2"})
        await found.sees("2")


async def test_a_silent_server_is_noticed(tmp_path: Path) -> None:
    server = FakeObjectServer(is_silent=True)
    async with following(tmp_path, server, ApiTimeouts(connect=10, silence=0.1)) as found:
        await until(lambda: found.lost)
        assert found.taken == []


async def test_an_object_that_is_too_long_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (object_watch, named_object):
        monkeypatch.setattr(module, "MAX_OBJECT_BYTES", 1000)
    server = FakeObjectServer()
    server.set("configmaps", "m", {"k": "1"})
    async with following(tmp_path, server) as found:
        await found.sees("1")
        await until(lambda: server.watchers)
        server.set("configmaps", "m", {"k": "x" * 2000})
        await until(lambda: any("too long" in each for each in found.lost))
        server.set("configmaps", "m", {"k": "2"})
        await found.sees("2")
    assert "x" * 2000 not in found.taken


async def test_another_object_is_an_error(tmp_path: Path) -> None:
    server = FakeObjectServer()
    server.set("configmaps", "m", {"k": "1"})
    async with following(tmp_path, server) as found:
        await until(lambda: server.watchers)
        event = {"type": "MODIFIED", "object": {"data": {"k": "2"}, "metadata": {**META, "name": "n"}}}
        server.tell(("configmaps", "m"), event)
        await until(lambda: any("another object" in each for each in found.lost))
    assert set(found.taken) == {"1"}
