"""Secrets of the rules are watched by name; a lost watch, a deletion and a bug give no value."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from egress.cluster import secret_watches
from egress.cluster.secret_watches import SecretWatches
from egress.errors import UnreadableError
from tests.cluster.fake_api_server import running
from tests.cluster.fake_object_server import FakeObjectServer, gone, until


def data(value: str) -> dict[str, str]:
    return {"k": base64.b64encode(value.encode()).decode()}


@dataclass
class Watched:
    secrets: SecretWatches
    changed: list[str] = field(default_factory=list)

    def watch(self, name: str = "tokens") -> None:
        self.secrets.watch(name, self.changed.append)

    async def value(self, name: str = "tokens") -> str:
        """The value, or why there is none; in a thread, as the resolver asks."""
        try:
            return (await asyncio.to_thread(self.secrets.value, name, "k")).decode()
        except UnreadableError as error:
            return error.message


@asynccontextmanager
async def watching(folder: Path, server: FakeObjectServer) -> AsyncIterator[tuple[Watched, list[str]]]:
    notes: list[str] = []
    async with running(folder, server) as api:
        found = Watched(SecretWatches(api, notes.append, pause=0.01))
        yield found, notes
        found.secrets.keep(frozenset())
        await gone(server)


async def test_a_secret_is_followed_from_its_first_use(tmp_path: Path) -> None:
    server = FakeObjectServer()
    server.set("secrets", "tokens", data("first"))
    server.set("secrets", "others", data("other"))
    async with watching(tmp_path, server) as (found, notes):
        found.watch()
        found.watch()
        assert await found.value() == "first"
        server.set("secrets", "tokens", data("second"))
        await until(lambda: len(found.changed) == 2)
        assert await found.value() == "second"
        server.delete("secrets", "tokens")
        await until(lambda: len(found.changed) == 3)
        assert await found.value() == "the Secret tokens does not exist"
        server.set("secrets", "tokens", data("third"))
        await until(lambda: len(found.changed) == 4)
        assert await found.value() == "third"
        assert await found.value("others") == "the Secret others is not watched"
    assert notes == []
    assert not any("others" in each for each in server.requests)


async def test_a_lost_watch_gives_no_value_until_it_is_back(tmp_path: Path) -> None:
    server = FakeObjectServer()
    server.set("secrets", "tokens", data("first"))
    async with watching(tmp_path, server) as (found, notes):
        found.watch()
        assert await found.value() == "first"
        server.status = 500
        server.cut()
        await until(lambda: notes)
        assert "is not watched" in await found.value()
        server.status = 200
        await until(lambda: not found.secrets._watched["tokens"].lost)
        assert await found.value() == "first"
    # The object is the same: nobody has to fetch it anew.
    assert found.changed == ["tokens"]


async def test_a_forgotten_secret_is_neither_watched_nor_kept(tmp_path: Path) -> None:
    server = FakeObjectServer()
    server.set("secrets", "tokens", data("first"))
    async with watching(tmp_path, server) as (found, _):
        found.watch()
        assert await found.value() == "first"
        await until(lambda: server.watchers)
        found.secrets.keep(frozenset({"others"}))
        assert "not watched" in await found.value()
        found.watch()
        assert await found.value() == "first"


async def test_a_server_that_does_not_answer_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_watches, "FIRST_ANSWER_SECONDS", 0.05)
    async with watching(tmp_path, FakeObjectServer(is_silent=True)) as (found, _):
        found.watch()
        assert "has not told" in await found.value()


async def test_a_watch_that_breaks_gives_no_value(tmp_path: Path) -> None:
    server = FakeObjectServer()
    server.set("secrets", "tokens", data("first"))
    async with watching(tmp_path, server) as (found, notes):

        def broken(_: str) -> None:
            raise RuntimeError

        found.secrets.watch("tokens", broken)
        await until(lambda: notes)
        assert "RuntimeError" in await found.value()


async def test_nothing_shows_a_value(tmp_path: Path) -> None:
    server = FakeObjectServer()
    server.set("secrets", "tokens", data("sesame-open-sesame-42"))
    async with watching(tmp_path, server) as (found, _):
        found.watch()
        await found.value()
        shown = f"{found.secrets!r} {found.secrets._watched!r}"
    assert "sesame" not in shown
    assert data("sesame-open-sesame-42")["k"] not in shown
