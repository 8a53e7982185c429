"""A stand-in for an API server with single objects too: read, watched by name, and Events created."""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from typing import override
from urllib.parse import parse_qs, urlsplit

from egress.kubernetes.watch_events import EventType, WatchKind
from tests.cluster.fake_api_server import TOKEN, FakeApiServer, Json, _chunk, whole

_COLLECTIONS = frozenset(WatchKind)


@dataclass
class FakeObjectServer(FakeApiServer):
    """ConfigMaps and Secrets of one namespace, by resource and name."""

    named: dict[tuple[str, str], Json] = field(default_factory=dict)
    changes: list[tuple[int, tuple[str, str], Json]] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    event_status: int = 201
    uids: int = 0

    def set(self, resource: str, name: str, data: dict[str, str], **more: object) -> None:
        """Create or change an object."""
        at = (resource, name)
        known = self.named.get(at)
        if known is None:
            self.uids += 1
        uid = known["metadata"]["uid"] if known else f"{name}-{self.uids}"
        self._change(at, EventType.MODIFIED if known else EventType.ADDED, {"data": data, **more}, uid)

    def delete(self, resource: str, name: str) -> None:
        found = self.named[resource, name]
        self._change((resource, name), EventType.DELETED, found, found["metadata"]["uid"])
        del self.named[resource, name]

    def _change(self, at: tuple[str, str], change: EventType, value: Json, uid: str) -> None:
        version = str(self.version + 1)
        meta = {"name": at[1], "namespace": "agents", "uid": uid, "resourceVersion": version}
        self.named[at] = found = {**value, "metadata": meta}
        self.tell(at, {"type": change, "object": found})

    def tell(self, at: tuple[str, str], event: Json) -> None:
        """Send an event to whoever watches the object."""
        self.version += 1
        self.changes.append((self.version, at, event))
        self.changed.set()
        self.changed = asyncio.Event()

    @override
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.clients.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
            method, target, _ = head.split(" ", 2)
            self.requests.append(f"{method} {target}")
            if self.is_silent:
                await asyncio.Event().wait()
            if f"Authorization: Bearer {TOKEN}\r\n" not in head:
                writer.write(whole(401, {}))
            elif method == "POST":
                size = int(head.partition("Content-Length: ")[2].partition("\r\n")[0])
                self.events.append(json.loads(await reader.readexactly(size)))
                writer.write(whole(self.event_status, {}))
            elif self.status != 200:
                writer.write(whole(self.status, {}))
            elif urlsplit(target).path.rpartition("/")[2] in _COLLECTIONS:
                await self._answer(head, target, writer)
            else:
                await self._read(target, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self.watchers.discard(writer)
            self.clients.discard(writer)
            writer.close()

    async def _read(self, target: str, writer: asyncio.StreamWriter) -> None:
        url = urlsplit(target)
        parts = url.path.split("/")[5:]
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if "watch" not in query:
            found = self.named.get((parts[0], parts[1]))
            writer.write(whole(404, {}) if found is None else whole(200, found))
            return
        at = (parts[0], query["fieldSelector"].removeprefix("metadata.name="))
        version = int(query.get("resourceVersion", "0"))
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        if version < self.oldest:
            writer.write(_chunk({"type": "ERROR", "object": {"kind": "Status", "code": 410}}))
        if "resourceVersion" not in query and at in self.named:
            writer.write(_chunk({"type": "ADDED", "object": self.named[at]}))
            version = self.version
        self.watchers.add(writer)
        while not writer.is_closing():
            waiter = self.changed
            for number, of, event in self.changes:
                if of == at and number > version:
                    writer.write(_chunk(event))
            version = self.version
            if self.raw is not None:
                writer.write(self.raw)
                self.raw = None
                return
            await waiter.wait()


async def until(holds: object, what: str = "") -> None:
    """Wait until a function says true."""
    assert callable(holds)
    try:
        async with asyncio.timeout(20):
            while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited in vain: {what}") from None


async def gone(server: FakeObjectServer) -> None:
    """Cut every connection, and let the loop close what was cut."""
    server.cut()
    for _ in range(10):
        await asyncio.sleep(0)
