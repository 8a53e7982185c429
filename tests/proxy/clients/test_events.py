"""Server-sent events come one by one: each is let go by the upstream only when the last one was seen.

So nothing here measures time. A proxy that collected events would not be slow in these tests, it would
never come to their end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.proxy.clients.program import started
from tests.proxy.clients.scene import MASK, WANTED, Scene, certs, through, unlocked
from tests.proxy.lab.certificates import HTTP2
from tests.proxy.lab.http2 import Call, Http2Upstream
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest

COUNT = 5
PATIENCE = 30.0
"""Seconds; only a proxy that holds an event back gets to know them."""


class Source:
    """Sends the next event when told that the last one was seen."""

    def __init__(self) -> None:
        self.seen = asyncio.Semaphore(0)

    async def over_http1(self, visit: UpstreamRequest) -> None:
        await visit.begin("200 OK", (("transfer-encoding", "chunked"),), "text/event-stream")
        for number in range(COUNT):
            await visit.chunk(event(number, visit.authorization))
            await self.seen.acquire()
        await visit.end_chunks()

    async def over_http2(self, call: Call) -> None:
        await call.begin(200, ("content-type", "text/event-stream"))
        for number in range(COUNT):
            await call.say(event(number, call.authorization))
            await self.seen.acquire()
        await call.conversation.end(call.stream)


def event(number: int, credential: str) -> bytes:
    """Number and credential: what is held back to look for a secret must be let go at the end of a line."""
    return f"data: {number} {credential}\n\n".encode()


def expected(number: int) -> str:
    return f"data: {number} Bearer {MASK}"


@asynccontextmanager
async def http1(folder: Path, source: Source) -> AsyncIterator[Scene[RawUpstream]]:
    upstream = RawUpstream(certs.good(NAME), WANTED)
    upstream.handle("/events", source.over_http1)
    async with through(folder, upstream, "http2: true") as scene:
        yield scene


@asynccontextmanager
async def http2(folder: Path, source: Source) -> AsyncIterator[Scene[Http2Upstream]]:
    upstream = Http2Upstream(certs.good(NAME, alpn=HTTP2), wants=WANTED)
    upstream.handle("/events", source.over_http2)
    async with through(folder, upstream, "http2: true") as scene:
        yield scene


Behind = Callable[[Path, Source], AbstractAsyncContextManager[Scene[RawUpstream | Http2Upstream]]]


@pytest.mark.parametrize(
    ("behind", "client_http2"),
    [(http1, False), (http1, True), (http2, True)],
    ids=["1.1-to-1.1", "2-to-1.1", "2-to-2"],
)
async def test_httpx_sees_each_event_before_the_next_is_sent(
    tmp_path: Path, behind: Behind, client_http2: bool
) -> None:
    source, seen = Source(), []
    async with (
        asyncio.timeout(PATIENCE),
        behind(tmp_path, source) as scene,
        httpx.AsyncClient(
            http2=client_http2, proxy=scene.stack.url, verify=scene.stack.trust(), trust_env=False
        ) as session,
        session.stream("GET", scene.url("/events")) as response,
    ):
        assert response.headers["content-type"] == "text/event-stream"
        async for line in response.aiter_lines():
            if line:
                seen.append(line)
                source.seen.release()
        assert seen == [expected(number) for number in range(COUNT)]
        unlocked(scene.upstream, "/events")
        scene.carried(("GET", "/events", 200))


@pytest.mark.system("curl", "curl")
async def test_curl_sees_each_event_before_the_next_is_sent(tmp_path: Path) -> None:
    source, seen = Source(), []
    async with asyncio.timeout(PATIENCE), http1(tmp_path, source) as scene:
        proxy = ("--proxy", scene.stack.url, "--cacert", str(scene.ca))
        command = ("curl", "--disable", "--silent", "--no-buffer", *proxy, scene.url("/events"))
        async with started(tmp_path, *command) as process:
            assert process.stdout is not None
            async for line in process.stdout:
                if line.strip():
                    seen.append(line.decode().strip())
                    source.seen.release()
            assert await process.wait() == 0
        assert seen == [expected(number) for number in range(COUNT)]
        unlocked(scene.upstream, "/events")
        scene.carried(("GET", "/events", 200))


async def test_a_client_that_leaves_ends_the_stream_upstream(tmp_path: Path) -> None:
    source = Source()
    async with asyncio.timeout(PATIENCE), http1(tmp_path, source) as scene:
        async with httpx.AsyncClient(
            proxy=scene.stack.url, verify=scene.stack.trust(), trust_env=False
        ) as session:
            async with session.stream("GET", scene.url("/events")) as response:
                first = await anext(response.aiter_lines())
            assert first == expected(0)
        # The handler waits to be told; what it notices next is that nobody is there any more.
        for _ in range(COUNT):
            source.seen.release()
        await scene.upstream.until(lambda: scene.upstream.links[0].closed)
        line = scene.stack.exchanges()[0]
        assert (line["status"], line["code"]) == (200, "client.left")
