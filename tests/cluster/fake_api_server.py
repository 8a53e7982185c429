"""A stand-in for an API server: lists in pages, watches with bookmarks, and every way in which those end."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import trustme

from egress.cluster.api_server import ClusterApi
from egress.kubernetes.watch_events import EventType, WatchKind

type Json = dict[str, Any]

TOKEN: Final = "made-up.token-of_a~pod"
AUTHORITY: Final = trustme.CA()


@dataclass
class FakeApiServer:
    """The collections of one namespace, and what is to go wrong next."""

    version: int = 0
    objects: dict[WatchKind, dict[str, Json]] = field(
        default_factory=lambda: {each: {} for each in WatchKind}
    )
    log: list[tuple[int, WatchKind, Json]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    """Of the requests that had one."""
    status: int = 200
    missing: set[WatchKind] = field(default_factory=set)
    """Kinds that this cluster does not know."""
    oldest: int = 0
    """Versions below it are too old to watch from."""
    raw: bytes | None = None
    """Sent instead of the next answer."""
    is_silent: bool = False
    demands_certificate: bool = False
    page_size: int = 500
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    watchers: set[asyncio.StreamWriter] = field(default_factory=set)
    clients: set[asyncio.StreamWriter] = field(default_factory=set)

    def put(self, kind: WatchKind, value: Json, change: EventType = EventType.MODIFIED) -> None:
        """Change the cluster, as its controllers do."""
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        uid = value["metadata"]["uid"]
        if change is EventType.DELETED:
            self.objects[kind].pop(uid)
        else:
            self.objects[kind][uid] = value
        self.log.append((self.version, kind, {"type": change, "object": value}))
        self.changed.set()
        self.changed = asyncio.Event()

    def cut(self) -> None:
        """Break every connection without a word."""
        for writer in list(self.clients):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.clients.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
            target = head.split(" ")[1]
            self.requests.append(target)
            self.heads.append(head)
            if size := re.search(r"Content-Length: ([0-9]+)", head):
                self.bodies.append(await reader.readexactly(int(size[1])))
            await self._answer(head, target, writer)
            await writer.drain()
            writer.write_eof() if writer.can_write_eof() else writer.close()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self.watchers.discard(writer)
            self.clients.discard(writer)
            writer.close()

    async def _answer(self, head: str, target: str, writer: asyncio.StreamWriter) -> None:
        if self.is_silent:
            await asyncio.Event().wait()
        if f"Authorization: Bearer {TOKEN}\r\n" not in head:
            writer.write(whole(401, {}))
        elif self.status != 200:
            writer.write(whole(self.status, {}))
        elif self.raw is not None:
            writer.write(self.raw)
            self.raw = None
        else:
            url = urlsplit(target)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            kind = WatchKind(url.path.rpartition("/")[2])
            if kind in self.missing:
                writer.write(whole(404, {}))
            elif selector := query.get("fieldSelector"):
                writer.write(whole(200, self._at_address(selector)))
            elif "watch" in query:
                await self._watch(kind, int(query["resourceVersion"]), writer)
            else:
                writer.write(whole(200, self._list(kind, int(query.get("continue", "0")))))

    def _list(self, kind: WatchKind, start: int) -> Json:
        found = list(self.objects[kind].values())
        end = start + self.page_size
        meta = {"resourceVersion": str(self.version)} | ({"continue": str(end)} if end < len(found) else {})
        return {"kind": "List", "metadata": meta, "items": found[start:end]}

    def _at_address(self, selector: str) -> Json:
        address = selector.removeprefix("status.podIP=")
        pods = self.objects[WatchKind.PODS].values()
        found = [each for each in pods if each["status"]["podIP"] == address]
        return {"metadata": {"resourceVersion": str(self.version)}, "items": found}

    async def _watch(self, kind: WatchKind, version: int, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        if version < self.oldest:
            writer.write(_chunk({"type": "ERROR", "object": {"kind": "Status", "code": 410}}))
        self.watchers.add(writer)
        while not writer.is_closing():
            waiter = self.changed
            for number, of_kind, event in self.log:
                if of_kind is kind and number > version:
                    writer.write(_chunk(event))
            version = self.version
            mark = {"metadata": {"resourceVersion": str(version)}}
            writer.write(_chunk({"type": "BOOKMARK", "object": mark}))
            if self.raw is not None:
                # The end of a watch in good order, or what the test wants instead.
                writer.write(self.raw)
                self.raw = None
                return
            await waiter.wait()


END_OF_WATCH: Final = b"0\r\n\r\n"


def _chunk(value: Json) -> bytes:
    line = json.dumps(value).encode() + b"\n"
    # In two chunks: an event need not come in one piece.
    half = len(line) // 2
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (line[:half], line[half:]))


def whole(status: int, value: Json) -> bytes:
    """An answer with an object of JSON."""
    body = json.dumps(value).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


@asynccontextmanager
async def running(folder: Path, server: FakeApiServer) -> AsyncIterator[ClusterApi]:
    """Serve on loopback, and give what a pod is given."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    if server.demands_certificate:
        AUTHORITY.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    AUTHORITY.cert_pem.write_to_path(str(folder / "ca.crt"))
    (folder / "token").write_text(f"{TOKEN}\n")
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield ClusterApi("127.0.0.1", port, "agents", folder / "ca.crt", folder / "token")
    finally:
        listener.close()
        server.cut()
