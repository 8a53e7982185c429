"""Harm by WebSockets and tunnels; and an operator who means none."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import os
import socket
import ssl
import sys
from contextlib import suppress
from pathlib import Path

from bench.neighbours.neighbour import KINDS, MANY, Kind, Neighbour, again, kind
from bench.neighbours.setting import TUNNEL, Stage


@kind("WebSockets full of small frames")
async def small_frames(it: Neighbour) -> None:
    asked = it.request(
        "/ws",
        "Connection: upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: c2l4dGVlbiBieXRlcyBvaw==",
    )

    async def story() -> None:
        line = await it.visit()
        line.write(asked)
        await line.head()
        await line.talk(b"", b"\x82\x81\0\0\0\0x" * 5000)

    await again(story, 16)


def _tunnels(data: bytes, count: int) -> Kind:
    async def made(it: Neighbour) -> None:
        hello = _hello()

        async def story() -> None:
            await (await it.tunnel(TUNNEL)).talk(hello, data)

        await again(story, count)

    return made


def _hello() -> bytes:
    """What a tunnel has to begin with: a hello that names the host."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=TUNNEL)
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


KINDS["64 tunnels full of bytes"] = _tunnels(os.urandom(65536), 64)
KINDS["400 tunnels with a byte at a time"] = _tunnels(b"x", MANY)


@kind("an operator who reloads 400 rules on one host")
async def reloads(it: Neighbour) -> None:
    await asyncio.to_thread(_reload_again_and_again, it.stage)


def _reload_again_and_again(stage: Stage) -> None:
    place = Path(stage.rules)
    text = place.read_text(encoding="utf-8")
    for number in itertools.count():
        paths = [f"'/r{number}/{each}/*/x'" for each in range(400)]
        rules = "".join(f"      - {{id: r{each}, paths: [{path}]}}\n" for each, path in enumerate(paths))
        place.write_text(f"{text}  many.bench.test:\n    allow:\n{rules}", encoding="utf-8")
        _reload(stage.control)


def _reload(control: str) -> None:
    asking = http.client.HTTPConnection("egress")
    asking.sock = socket.socket(socket.AF_UNIX)
    asking.sock.connect(control)
    asking.request("POST", "/reload", b"{}")
    answer = asking.getresponse().read()
    # The proxy may have seen the file before it was told.
    if b"loaded" not in answer and b"unchanged" not in answer:
        sys.exit(f"the rules were not loaded: {answer[:300]!r}")
    asking.close()
