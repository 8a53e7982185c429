"""Harm by HTTP/1.1, from the client and from the upstream."""

from __future__ import annotations

import asyncio
import os

from bench.neighbours.neighbour import CONNECTIONS, KINDS, MANY, Kind, Line, Neighbour, again, kind
from bench.neighbours.setting import CLEAR


def _http1(path: str, *fields: str, count: int = 16, connections: int = CONNECTIONS) -> Kind:
    """Requests one behind the other, as many as are taken."""

    async def made(it: Neighbour) -> None:
        data = it.request(path, *fields) * count
        await again(lambda: _opened(it, data), connections)

    async def _opened(it: Neighbour, data: bytes) -> None:
        await (await it.visit()).talk(b"", data)

    return made


KINDS["denied requests, pipelined"] = _http1("/denied", count=64)
KINDS["allowed requests, pipelined"] = _http1("/small", count=64)
KINDS["requests with 4,000 cookies"] = _http1(
    "/small", "Cookie: " + "; ".join(f"c{number}=v" for number in range(4000))
)
KINDS["requests with a path of escapes"] = _http1("/" + "%C3%A9" * 1300)
KINDS["requests with 120 fields"] = _http1("/small", *[f"X-{number}: {'v' * 400}" for number in range(120)])


@kind("clear-text requests")
async def clear_text(it: Neighbour) -> None:
    request = f"GET http://{CLEAR}:{it.stage.clear}/small HTTP/1.1\r\nHost: {CLEAR}:{it.stage.clear}\r\n\r\n"

    async def story() -> None:
        line = await it.dial()
        line.write(request.encode())
        await line.discard()
        line.close()

    await again(story)


def _upload(chunk: bytes) -> Kind:
    async def made(it: Neighbour) -> None:
        head = it.request("/small", "Transfer-Encoding: chunked", method="POST")

        async def story() -> None:
            await (await it.visit()).talk(head, chunk)

        await again(story)

    return made


KINDS["uploads in chunks of one byte"] = _upload(b"1\r\nx\r\n" * 10_000)
KINDS["plain uploads"] = _upload(b"10000\r\n" + os.urandom(65536) + b"\r\n")


def _download(path: str, *, reads: bool = True, connections: int = CONNECTIONS) -> Kind:
    """One response after the other; those without an end are read for ever."""

    async def made(it: Neighbour) -> None:
        requests = it.request(path)

        async def story() -> None:
            await (await it.visit()).talk(requests * 4, requests, reads=reads)

        await again(story, connections)

    return made


KINDS["64 plain downloads"] = _download("/bulk", connections=64)
KINDS["downloads that are never read"] = _download("/bulk", reads=False, connections=200)
KINDS["responses in chunks of one byte"] = _download("/one-byte-chunks")
KINDS["a hundred gzip responses"] = _download("/gzip", connections=100)
KINDS["a hundred brotli windows"] = _download("/brotli", connections=100)
KINDS["a hundred zstd windows"] = _download("/zstd", connections=100)
KINDS["responses full of the secret"] = _download("/secret")
KINDS["responses with large heads"] = _download("/heads")
KINDS["responses with interim heads"] = _download("/interim")


@kind("connections that all close at once")
async def close_at_once(it: Neighbour) -> None:
    request = it.request("/bulk")
    while True:
        opened = []
        for _ in range(MANY // 25):
            found = await asyncio.gather(*(it.visit() for _ in range(25)), return_exceptions=True)
            opened += [each for each in found if isinstance(each, Line)]
        for line in opened:
            line.write(request)
        await asyncio.sleep(0.2)
        for line in opened:
            line.abort()
