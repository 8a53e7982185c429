"""The tests' stand-in for an API server, for hundreds of events a second: each is encoded and sent at once.

A watch ends in good order after the time that clients ask for, with a bookmark, as at a real server. Events
are kept for the watch that comes next, for a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final, override

import msgspec

from bench.kubernetes.cluster_objects import Json
from egress.cluster.collection_watch import WATCH_SECONDS
from egress.kubernetes.watch_events import EventType, WatchKind
from tests.cluster.fake_api_server import END_OF_WATCH, FakeApiServer

KEPT_EVENTS: Final = 5000


@dataclass
class BusyApiServer(FakeApiServer):
    """Collections of one namespace that change all the time."""

    kept: deque[tuple[int, WatchKind, bytes]] = field(default_factory=deque)
    open: dict[WatchKind, set[asyncio.StreamWriter]] = field(
        default_factory=lambda: {each: set() for each in WatchKind}
    )
    """The watches that stand."""
    sent_events: int = 0
    sent_bytes: int = 0

    @override
    def put(self, kind: WatchKind, value: Json, change: EventType = EventType.MODIFIED) -> None:
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        if change is EventType.DELETED:
            del self.objects[kind][value["metadata"]["uid"]]
        else:
            self.objects[kind][value["metadata"]["uid"]] = value
        data = _line(change, value)
        self.kept.append((self.version, kind, data))
        if len(self.kept) > KEPT_EVENTS:
            self.oldest = self.kept.popleft()[0]
        for writer in self.open[kind]:
            self._send(writer, data)

    def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        self.sent_events += 1
        self.sent_bytes += len(data)

    @override
    async def _watch(self, kind: WatchKind, version: int, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        if version < self.oldest:
            writer.write(_line(EventType.ERROR, {"kind": "Status", "code": 410}))
        for number, of_kind, data in self.kept:
            if of_kind is kind and number > version:
                self._send(writer, data)
        self.open[kind].add(writer)
        try:
            await asyncio.sleep(WATCH_SECONDS)
        finally:
            self.open[kind].discard(writer)
        writer.write(_line(EventType.BOOKMARK, {"metadata": {"resourceVersion": str(self.version)}}))
        writer.write(END_OF_WATCH)


def _line(change: EventType, value: Json) -> bytes:
    data = msgspec.json.encode({"type": change, "object": value}) + b"\n"
    return b"%x\r\n%b\r\n" % (len(data), data)
