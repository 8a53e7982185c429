"""Clients of every kind, at a modest pace, until they are told to stop; each request is in the books.

What comes back is compared with what should: an answer that nobody can explain is kept in words.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from wsproto.events import BytesMessage, CloseConnection, TextMessage

from tests.faults.proxy_lab import API, BLIND, OPEN, STREAMS, ProxyLab
from tests.faults.seeded_random import SeededRandom
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, RefusedError, at, connect
from tests.proxy.lab.http2 import Http2Client
from tests.proxy.lab.upstream_request import UpstreamRequest
from tests.proxy.lab.websocket import open_websocket
from tests.soak.request_ledger import RequestLedger

KEPT = 40
"""Requests on one connection."""
BIG = 8_000_000
EVENTS = 40
MESSAGES = 20


@dataclass
class Traffic:
    """All clients of one run."""

    estate: ProxyLab
    books: RequestLedger
    chance: SeededRandom
    is_over: bool = False
    reloads: int = 0

    async def run(self) -> None:
        """Go on until it is over."""
        kinds: tuple[tuple[Callable[[], Awaitable[None]], int, float], ...] = (
            (self.keep_alive, 4, 0.2),
            (self.new_connection, 2, 0.15),
            (self.streams, 2, 0.3),
            (self.events, 4, 0.1),
            (self.websocket, 2, 0.2),
            (self.tunnel, 2, 0.3),
            (self.denied, 1, 0.3),
            (self.unknown, 1, 0.7),
            (self.download, 1, 1.0),
            (self.upload, 1, 1.0),
            (self.leave, 1, 0.5),
            (self.broken, 1, 0.5),
            (self.reload, 1, 3.0),
        )
        async with asyncio.TaskGroup() as group:
            for talk, count, pause in kinds:
                for _ in range(count):
                    group.create_task(self._repeat(talk, pause))

    async def _repeat(self, talk: Callable[[], Awaitable[None]], pause: float) -> None:
        while not self.is_over:
            try:
                await talk()
            except (OSError, EndedError, RefusedError, ssl.SSLError) as error:
                self.books.wonder(f"{talk.__name__}: {type(error).__name__}: {error}")
            await asyncio.sleep(pause * (0.5 + self.chance.random()))

    # One request

    @contextlib.asynccontextmanager
    async def _request(self, kind: str) -> AsyncIterator[str]:
        """A path of its own; when the block is left, the client has an end of it."""
        number = self.books.begin()
        try:
            yield f"/{kind}/{number}"
        finally:
            self.books.end(number, time.monotonic())

    async def _get(self, peer: Peer, kind: str, query: str = "", *, expected: int = 200) -> None:
        async with self._request(kind) as path:
            response = await peer.get(path + query, self.estate.host(API))
        if response.status != expected or not response.complete:
            self.books.wonder(f"{kind}: {response.start}, whole: {response.complete}")

    # The kinds

    async def keep_alive(self) -> None:
        async with await self.estate.visit() as peer:
            for _ in range(KEPT):
                await self._get(peer, "small")
                await asyncio.sleep(0.01)
                if self.is_over:
                    return

    async def new_connection(self) -> None:
        async with await self.estate.visit() as peer:
            await self._get(peer, "echo-gzip")

    async def streams(self) -> None:
        """Several at once on one HTTP/2 connection, one of which is reset by its client."""
        peer = await self.estate.visit(STREAMS, "h2")
        async with Http2Client(peer.channel) as client:
            for _ in range(4):
                await asyncio.gather(*(self._stream(client) for _ in range(8)), self._reset(client))

    async def _stream(self, client: Http2Client) -> None:
        async with self._request("small") as path:
            stream = await client.get(self.estate.host(STREAMS), path)
        if stream.status != 200 or not stream.complete:
            self.books.wonder(f"a stream: {stream.fields}, reset: {stream.reset}")

    async def _reset(self, client: Http2Client) -> None:
        async with self._request("never-reads") as path:
            stream = await client.start(self.estate.host(STREAMS), path, method="POST")
            await asyncio.sleep(0.05)
            await client.conversation.reset(stream)

    async def events(self) -> None:
        async with await self.estate.visit() as peer:
            await self._get(peer, "sse", f"?n={EVENTS}&every=0.05")

    async def websocket(self) -> None:
        async with await self.estate.visit() as peer, self._request("ws") as path:
            socket = await open_websocket(peer.channel, self.estate.host(API), path)
            for number in range(MESSAGES):
                said = TextMessage(f"number {number}") if number % 2 else BytesMessage(bytes(2000))
                await socket.send(said)
                if await socket.receive() != said:
                    self.books.wonder("a WebSocket that does not echo")
                await asyncio.sleep(0.02)
            await socket.send(CloseConnection(1000))
            await socket.receive()

    async def tunnel(self) -> None:
        async with await self.estate.visit(BLIND) as peer:
            self.books.tunnels += 1
            for _ in range(10):
                response = await peer.get("/echo/inside", self.estate.host(OPEN))
                if response.status != 200:
                    self.books.wonder(f"inside a tunnel: {response.start}")
                await asyncio.sleep(0.02)

    async def denied(self) -> None:
        async with await self.estate.visit() as peer:
            await self._get(peer, "denied", expected=403)

    async def unknown(self) -> None:
        """A host that no rule names: its page is read inside of TLS, and on a port of SSH at the CONNECT."""
        evil, proxy = "evil.example.test", at(self.estate.served.port)
        async with (
            await connect(at(443), evil, self.estate.trust["http/1.1"], proxy=proxy) as peer,
            self._request("unknown") as path,
        ):
            response = await peer.get(path, evil)
        if response.header("egress-denied") != "host.unknown":
            self.books.wonder(f"a host that no rule names answered {response.start}")
        self.books.refusals += 1
        with contextlib.suppress(RefusedError):
            peer = await connect(at(22), evil, None, proxy=proxy)
            await peer.channel.drop()
            self.books.wonder("a host that no rule names was let through")

    async def download(self) -> None:
        async with await self.estate.visit() as peer:
            await self._get(peer, "bytes", f"?n={BIG}")

    async def upload(self) -> None:
        async with await self.estate.visit() as peer, self._request("sink") as path:
            head = f"POST {path} HTTP/1.1\r\nhost: {self.estate.host(API)}\r\ncontent-length: {BIG}\r\n\r\n"
            await peer.send(head.encode())
            for _ in range(BIG // 100_000):
                await peer.send(bytes(100_000))
            response = await peer.response("POST")
        if response.status != 200:
            self.books.wonder(f"an upload: {response.start}")

    async def leave(self) -> None:
        """A client that goes in the midst of an answer."""
        async with self._request("bytes") as path:
            peer = await self.estate.visit()
            await peer.send(f"GET {path}?n={BIG} HTTP/1.1\r\nhost: {self.estate.host(API)}\r\n\r\n".encode())
            await peer.head()
            await peer.channel.reset()

    async def broken(self) -> None:
        """An upstream that goes in the midst of an answer."""
        async with await self.estate.visit() as peer, self._request("half") as path:
            response = await peer.get(path, self.estate.host(API))
        if response.complete:
            self.books.wonder("half an answer came as a whole one")

    async def reload(self) -> None:
        """Rules that say the same of everything that is under way."""
        self.reloads += 1
        served = self.estate.served
        text = served.rules.read_text(encoding="utf-8").partition("# ")[0]
        served.write(f"{text}# {self.reloads}\n")
        status, said = await self.estate.ask("POST", "/reload")
        if status != 200:
            self.books.wonder(f"a reload: {said}")


async def half(visit: UpstreamRequest) -> None:
    """Half of an answer, and a reset."""
    await visit.body()
    visit.over = True
    await visit.begin("200 OK", (("content-length", "20000"),))
    await visit.channel.send(bytes(10_000))
    await visit.channel.reset()
