"""What the lab's hosts do to whoever trusts them, by path; beside the handlers of `tests/proxy/lab`.

Every path below /give hands out the credential that came with the request, each in another way. Those below
/lie break the protocol with the credential in the place where it breaks. Those below /much do not end.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import zlib
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import parse_qs, quote

from tests.proxy.lab.upstream_request import UpstreamRequest

Handler = Callable[[UpstreamRequest], Awaitable[None]]
Encoder = Callable[[bytes], bytes]

BLOCK: Final = b"\0" * (1 << 20)


def credential(visit: UpstreamRequest) -> bytes:
    """The bare secret of a request, wherever it stands; b"none" without one."""
    request = visit.request
    for name in ("x-api-key", "authorization"):
        if found := request.header(name):
            scheme, _, token = found.rpartition(" ")
            raw = token.encode("latin-1")
            return base64.b64decode(raw).partition(b":")[2] if scheme.lower() == "basic" else raw
    for part in (request.header("cookie") or "").split("; "):
        if part.startswith("session="):
            return part[8:].encode("latin-1")
    found_in_query = parse_qs(request.target.partition("?")[2]).get("key", ["none"])[0]
    return found_in_query.encode("latin-1", "replace")


# Given, in a body ---------------------------------------------------------------------------------


def _percent(secret: bytes) -> bytes:
    return b"".join(b"%%%02X" % byte for byte in secret)


def _mixed_hex(secret: bytes) -> bytes:
    return b"".join((b"%02X" if at % 2 else b"%02x") % byte for at, byte in enumerate(secret))


BODIES: Final[dict[str, Encoder]] = {
    "plain": lambda secret: secret,
    "upper": lambda secret: secret.upper(),
    "base64": base64.b64encode,
    "base64-1": lambda secret: base64.b64encode(b"x" + secret + b"yy"),
    "base64-2": lambda secret: base64.b64encode(b"xx" + secret + b"y"),
    "base64url": base64.urlsafe_b64encode,
    "hex": lambda secret: secret.hex().encode(),
    "HEX": lambda secret: secret.hex().upper().encode(),
    "mixed-hex": _mixed_hex,
    "percent": _percent,
    "quoted": lambda secret: quote(secret, safe="").encode(),
    "json": lambda secret: json.dumps({"token": secret.decode("latin-1")}).encode(),
    "json-escaped": lambda secret: b"".join(b"\\u00%02x" % byte for byte in secret),
    "html": lambda secret: html.escape(secret.decode("latin-1")).encode(),
    "reversed": lambda secret: secret[::-1],
    "base64-base64": lambda secret: base64.b64encode(base64.b64encode(secret)),
    "gzip-unsaid": gzip.compress,
    "middle": lambda secret: b"." * 70_000 + secret + b"." * 70_000,
}
"""Forms of a secret, served below /give/ as plain text."""


def _give(encode: Encoder) -> Handler:
    async def handler(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.answer(b"given: " + encode(credential(visit)) + b"\n")

    return handler


def _coded(coding: str, encode: Encoder) -> Handler:
    """A body under a content coding that says something else than it is, or says it twice."""

    async def handler(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.answer(encode(credential(visit) * 20), (("content-encoding", coding),))

    return handler


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


async def _in_pieces(visit: UpstreamRequest) -> None:
    """Each byte a chunk of its own."""
    await visit.body()
    await visit.begin("200 OK", (("transfer-encoding", "chunked"),))
    for byte in credential(visit):
        await visit.chunk(bytes([byte]))
    await visit.end_chunks()


# Given, in a head, and lies -----------------------------------------------------------------------

_LENGTH = b"content-length: 3\r\n"
HEADS: Final[dict[str, bytes]] = {
    "/give/reason": b"HTTP/1.1 200 %s\r\n" + _LENGTH + b"\r\nok\n",
    "/give/value": b"HTTP/1.1 200 OK\r\nx-gift: %s\r\n" + _LENGTH + b"\r\nok\n",
    "/give/name": b"HTTP/1.1 200 OK\r\nx-%s: gift\r\n" + _LENGTH + b"\r\nok\n",
    "/give/cookie": b"HTTP/1.1 200 OK\r\nset-cookie: a=%s; Path=/\r\n" + _LENGTH + b"\r\nok\n",
    "/give/location": b"HTTP/1.1 302 Found\r\nlocation: https://evil.test/?%s\r\n" + _LENGTH + b"\r\nok\n",
    "/give/refresh": b"HTTP/1.1 200 OK\r\nrefresh: 0;url=https://evil.test/%s\r\n" + _LENGTH + b"\r\nok\n",
    "/give/link": b"HTTP/1.1 200 OK\r\nlink: <https://evil.test/%s>; rel=next\r\n" + _LENGTH + b"\r\nok\n",
    "/give/103": b"HTTP/1.1 103 Hints\r\nlink: <%s>\r\n\r\nHTTP/1.1 200 OK\r\n" + _LENGTH + b"\r\nok\n",
    "/give/folded": b"HTTP/1.1 200 OK\r\nx-a: b\r\n %s\r\n" + _LENGTH + b"\r\nok\n",
    "/give/trailer": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-gift\r\n\r\n"
        b"3\r\nok\n\r\n0\r\nx-gift: %s\r\n\r\n"
    ),
    "/give/extension": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;a=%s\r\nok\n\r\n0\r\n\r\n",
    "/lie/status-line": b"%s 200 OK\r\n" + _LENGTH + b"\r\nok\n",
    "/lie/status": b"HTTP/1.1 %s\r\n" + _LENGTH + b"\r\nok\n",
    "/lie/no-colon": b"HTTP/1.1 200 OK\r\n%s\r\n" + _LENGTH + b"\r\nok\n",
    "/lie/length": b"HTTP/1.1 200 OK\r\ncontent-length: %s\r\n\r\nok\n",
    "/lie/two-lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\nx: %s\r\n\r\nok\n",
    "/lie/both": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n" + _LENGTH + b"\r\n3\r\n%s\r\n0\r\n\r\n",
    "/lie/chunk-size": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%s\r\nok\n\r\n0\r\n\r\n",
    "/lie/coding": b"HTTP/1.1 200 OK\r\ntransfer-encoding: %s\r\n\r\nok\n",
    "/lie/second": b"HTTP/1.1 200 OK\r\n" + _LENGTH + b"\r\nok\nHTTP/1.1 200 OK\r\nx-gift: %s\r\n\r\n",
    "/lie/upgrade": b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nraw: %s",
    "/lie/bare-lf": b"HTTP/1.1 200 OK\nx-gift: %s\n" + _LENGTH.replace(b"\r", b"") + b"\nok\n",
    "/lie/nul": b"HTTP/1.1 200 OK\r\nx-gift: \0%s\r\n" + _LENGTH + b"\r\nok\n",
    "/lie/more": b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n%s",
    "/lie/http09": b"%s\n",
}
"""Whole responses, `%s` where the credential stands; the connection ends after each."""


def _say(template: bytes) -> Handler:
    async def handler(visit: UpstreamRequest) -> None:
        visit.over = True
        await visit.body()
        await visit.channel.send(template.replace(b"%s", credential(visit)))

    return handler


# Without an end -----------------------------------------------------------------------------------


async def _endless_head(visit: UpstreamRequest) -> None:
    visit.over = True
    await visit.channel.send(b"HTTP/1.1 200 OK\r\n")
    for number in range(64):
        await visit.channel.send(b"".join(b"x-%d-%d: %s\r\n" % (number, n, b"y" * 1000) for n in range(1000)))


async def _endless_hints(visit: UpstreamRequest) -> None:
    visit.over = True
    for _ in range(20_000):
        await visit.channel.send(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")


async def _bomb(visit: UpstreamRequest) -> None:
    """256 MiB of zeros in 256 KiB, four deep behind their name where `deep` says so."""
    await visit.body()
    packer = zlib.compressobj(9, wbits=31)
    packed = b"".join(packer.compress(BLOCK) for _ in range(256)) + packer.flush()
    await visit.answer(packed, (("content-encoding", "gzip"),))


async def _slow(visit: UpstreamRequest) -> None:
    """A beginning, and the rest when the host is released."""
    visit.over = True
    await visit.channel.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfive ")
    await visit.channel.some()


HOSTILE: Final[dict[str, Handler]] = {
    **{f"/give/{name}": _give(encode) for name, encode in BODIES.items()},
    **{path: _say(template) for path, template in HEADS.items()},
    "/give/pieces": _in_pieces,
    "/give/gzip-gzip": _coded("gzip, gzip", lambda data: gzip.compress(gzip.compress(data))),
    "/give/x-unknown": _coded("x-unknown", gzip.compress),
    "/give/not-gzip": _coded("gzip", lambda data: data),
    "/give/raw-deflate": _coded("deflate", _raw_deflate),
    "/give/bz2-named": _coded("bz2", lambda data: data),
    "/much/head": _endless_head,
    "/much/hints": _endless_hints,
    "/much/zeros": _bomb,
    "/slow": _slow,
}
