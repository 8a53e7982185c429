"""What the HTTP/1.1 upstream does without a script, by path.

Every handler that reflects shows the credential it was given: what a proxy injects must not come back.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import time
import zlib
from collections.abc import Awaitable, Callable

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import zstandard

from tests.proxy.lab.upstream_request import Extra, UpstreamRequest
from tests.proxy.lab.websocket import serve_websocket

CHUNKED = ("transfer-encoding", "chunked")
# Without something to compress, brotli would pass the echo through as it is.
FILLER = b"." * 2000
BLOCK = bytes(range(256)) * 256


Handler = Callable[[UpstreamRequest], Awaitable[None]]


async def locked(visit: UpstreamRequest) -> None:
    """For whoever brings no credential, or not the one that is wanted."""
    await visit.body()
    await visit.answer(b"who are you?\n", status="401 Unauthorized")


async def missing(visit: UpstreamRequest) -> None:
    await visit.body()
    await visit.answer(b"nothing here\n", status="404 Not Found")


async def echo(visit: UpstreamRequest) -> None:
    """The request, head and body, as it arrived."""
    body = await visit.body()
    await visit.answer(visit.request.raw + body)


def echo_coded(coding: str, encode: Callable[[bytes], bytes]) -> Callable[[UpstreamRequest], Awaitable[None]]:
    """An echo and a filler under a content coding, whether or not it was asked for."""

    async def handler(visit: UpstreamRequest) -> None:
        body = await visit.body()
        await visit.answer(encode(visit.request.raw + body + FILLER), (("content-encoding", coding),))

    return handler


async def echo_header(visit: UpstreamRequest) -> None:
    """The credential in header values and in a header's name."""
    await visit.body()
    token = visit.authorization.rpartition(" ")[2]
    extra: Extra = (("x-echo", visit.authorization), ("x-token", token), (f"x-{token}", "name"))
    await visit.answer(b"see the head\n", extra)


async def cookie(visit: UpstreamRequest) -> None:
    """Two cookies, one with the credential as its value."""
    await visit.body()
    token = visit.authorization.rpartition(" ")[2]
    extra: Extra = (("set-cookie", f"session={token}; Path=/; HttpOnly"), ("set-cookie", "plain=1"))
    await visit.answer(b"cookies\n", extra)


async def redirect(visit: UpstreamRequest) -> None:
    """To `to`, in which `{token}` stands for the credential; `code` chooses the status."""
    await visit.body()
    token = visit.authorization.rpartition(" ")[2]
    to = visit.parameter("to", "/").replace("{token}", token)
    await visit.answer(b"", (("location", to),), status=f"{visit.parameter('code', '302')} Found")


async def events(visit: UpstreamRequest) -> None:
    """`n` server-sent events, `every` seconds apart; each carries its monotonic time."""
    await visit.body()
    await visit.begin("200 OK", (CHUNKED, ("cache-control", "no-store")), "text/event-stream")
    every = float(visit.parameter("every", "0"))
    for number in range(visit.number("n", 3)):
        await visit.chunk(b"data: %d %.6f\n\n" % (number, time.monotonic()))
        await asyncio.sleep(every)
    await visit.end_chunks()


async def many_bytes(visit: UpstreamRequest) -> None:
    """`n` bytes with their length, in constant memory."""
    await visit.body()
    left = visit.number("n", 1)
    extra: Extra = (("content-length", str(left)), ("x-sha256", hash_of_bytes(left)))
    await visit.begin("200 OK", extra, "application/octet-stream")
    while left and visit.request.method != "HEAD":
        part = BLOCK[:left]
        await visit.channel.send(part)
        left -= len(part)


def hash_of_bytes(count: int) -> str:
    """SHA-256 of what `/bytes` sends."""
    whole, rest = divmod(count, len(BLOCK))
    digest = hashlib.sha256()
    for _ in range(whole):
        digest.update(BLOCK)
    digest.update(BLOCK[:rest])
    return digest.hexdigest()


async def sink(visit: UpstreamRequest) -> None:
    """Counts and hashes an upload of any size."""
    await visit.body()
    request = visit.request
    found = {"size": request.size, "sha256": request.digest, "trailers": dict(request.trailers)}
    await visit.answer(json.dumps(found).encode(), kind="application/json")


async def chunked(visit: UpstreamRequest) -> None:
    """`n` chunks of `size` bytes; `ext` puts an extension on each."""
    await visit.body()
    extension = b';name="a;b"' if visit.parameter("ext", "") else b""
    await visit.begin("200 OK", (CHUNKED,))
    for number in range(visit.number("n", 3)):
        await visit.chunk(b"%x" % (number % 16) * visit.number("size", 4), extension)
    await visit.end_chunks()


async def trailers(visit: UpstreamRequest) -> None:
    """A chunked body with trailers, one of which carries the credential."""
    await visit.body()
    await visit.begin("200 OK", (CHUNKED, ("trailer", "x-check, x-echo")))
    await visit.chunk(b"body\n")
    await visit.end_chunks((("x-check", "done"), ("x-echo", visit.authorization)))


async def early_hints(visit: UpstreamRequest) -> None:
    """103 with the credential in it, then the response."""
    await visit.body()
    hints = f"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\nx-echo: {visit.authorization}\r\n\r\n"
    await visit.channel.send(hints.encode("latin-1"))
    await visit.answer(b"after the hints\n")


async def expecting(visit: UpstreamRequest) -> None:
    """Whether the request came with `Expect`, and what came after 100."""
    expected = visit.request.header("expect") or "nothing"
    await visit.body()
    await visit.answer(f"expected {expected}, got {visit.request.size} bytes\n".encode())


async def refusing(visit: UpstreamRequest) -> None:
    """Answers 417 without reading the body, and hangs up."""
    visit.over = True
    await visit.answer(b"not wanted\n", (("connection", "close"),), status="417 Expectation Failed")


async def status(visit: UpstreamRequest) -> None:
    """A response of any status, with no body where HTTP allows none."""
    await visit.body()
    code = visit.number("code", 204)
    if code in {204, 304}:
        await visit.begin(f"{code} Chosen")
    else:
        await visit.answer(b"chosen\n", status=f"{code} Chosen")


async def until_close(visit: UpstreamRequest) -> None:
    """A body that ends with the connection."""
    await visit.body()
    visit.over = True
    await visit.begin("200 OK", (("connection", "close"),))
    await visit.channel.send(b"until the end\n")


async def small(visit: UpstreamRequest) -> None:
    """A few hundred bytes of JSON for whoever brings a credential, 401 for others."""
    await visit.body()
    if visit.authorization == "none":
        await visit.answer(b"{}", status="401 Unauthorized", kind="application/json")
    else:
        body = json.dumps({"items": [{"id": n, "name": f"item {n}"} for n in range(10)]}).encode()
        await visit.answer(body, kind="application/json")


def _deflate(data: bytes) -> bytes:
    return zlib.compress(data)


HANDLERS: dict[str, Handler] = {
    "/103": early_hints,
    "/bytes": many_bytes,
    "/chunked": chunked,
    "/continue": expecting,
    "/cookie": cookie,
    "/echo": echo,
    "/echo-br": echo_coded("br", brotli.compress),
    "/echo-deflate": echo_coded("deflate", _deflate),
    "/echo-gzip": echo_coded("gzip", gzip.compress),
    "/echo-hdr": echo_header,
    "/echo-zstd": echo_coded("zstd", zstandard.compress),
    "/redirect": redirect,
    "/refuse": refusing,
    "/sink": sink,
    "/small": small,
    "/sse": events,
    "/status": status,
    "/trailers": trailers,
    "/until-close": until_close,
    "/ws": serve_websocket,
}
