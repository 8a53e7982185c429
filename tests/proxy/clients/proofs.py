"""What each capability of the table means, as something to be seen: one function for each.

A proof asks the client to do one thing and then looks at all sides: what the client got, what the upstream
saw, and what the log says. It knows nothing of any one client.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

from tests.conftest import IS_NIGHTLY
from tests.proxy.clients.client import Client
from tests.proxy.clients.scene import MASK, unlocked
from tests.proxy.clients.stage import Stage, over_http2
from tests.proxy.lab.handlers import hash_of_bytes
from tests.proxy.lab.proxy_stack import OTHER
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest

LARGE = (64 if IS_NIGHTLY else 8) * 1024 * 1024
"""What the table says of large bodies is proven by the night."""
PARTS = 3
PATIENCE = 60.0
"""Seconds; only a client that waits for ever gets to know them."""


async def plain(stage: Stage[RawUpstream], client: Client) -> None:
    """A page of the host that is given nothing."""
    ran = await stage.ask(client, "get", "/bytes?n=1000", OTHER)
    assert hashlib.sha256(ran.out).hexdigest() == hash_of_bytes(1000), ran
    assert [request.path for request in stage.scene.upstream.requests] == ["/bytes"]
    assert not stage.scene.upstream.requests[0].headers("authorization")
    (line,) = stage.scene.stack.exchanges()
    assert (line["host"], line["code"], line["injected"]) == (OTHER, "rule.allowed", [])


async def injected(stage: Stage[RawUpstream], client: Client) -> None:
    """An echo of the request shows a mask where the credential stood."""
    ran = await stage.ask(client, "get", "/echo")
    assert f"authorization: Bearer {MASK}\r\n".encode() in ran.out, ran
    unlocked(stage.scene.upstream, "/echo")
    stage.scene.carried(("GET", "/echo", 200))


async def refusal(stage: Stage[RawUpstream], client: Client) -> None:
    """A denied path: the client fails, and what it prints names the code."""
    ran = await stage.ask(client, "get", "/private/keys")
    assert ran.status != 0
    assert "rule.denied" in ran.text + ran.err, ran
    assert not stage.scene.upstream.links
    stage.scene.denied("rule.denied", ("GET", "/private/keys", 403))


async def large(stage: Stage[RawUpstream], client: Client) -> None:
    """Every byte of a large body, in order."""
    ran = await stage.ask(client, "get", f"/bytes?n={LARGE}")
    assert len(ran.out) == LARGE, ran.err
    assert hashlib.sha256(ran.out).hexdigest() == hash_of_bytes(LARGE)
    unlocked(stage.scene.upstream, "/bytes")
    stage.scene.carried(("GET", "/bytes", 200))


async def upload(stage: Stage[RawUpstream], client: Client, method: str = "PUT") -> None:
    """Every byte of a large file, in order."""
    file, content = stage.home / "large", bytes(range(256)) * (LARGE // 256)
    file.write_bytes(content)
    ran = await stage.ask(client, "put", "/sink", file=file)
    assert ran.status == 0, ran.err
    found = json.loads(ran.out)
    assert (found["size"], found["sha256"]) == (LARGE, hashlib.sha256(content).hexdigest())
    unlocked(stage.scene.upstream, "/sink")
    stage.scene.carried((method, "/sink", 200))


async def streaming(stage: Stage[RawUpstream], client: Client) -> None:
    """The upstream goes on only when the client has shown the last part; nothing here measures time."""
    seen = asyncio.Semaphore(0)

    async def events(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.begin("200 OK", (("transfer-encoding", "chunked"),), "text/event-stream")
        for number in range(PARTS):
            await visit.chunk(b"data: %d\n\n" % number)
            await seen.acquire()
        await visit.end_chunks()

    stage.scene.upstream.handle("/events", events)
    got = []
    async with asyncio.timeout(PATIENCE), await stage.begun(client, "stream", "/events") as process:
        assert process.stdout is not None
        async for line in process.stdout:
            if line.startswith(b"data:"):
                got.append(line.strip())
                seen.release()
        assert await process.wait() == 0
    assert got == [b"data: %d" % number for number in range(PARTS)]
    unlocked(stage.scene.upstream, "/events")
    stage.scene.carried(("GET", "/events", 200))


async def websocket(stage: Stage[RawUpstream], client: Client) -> None:
    """The client says a line and prints the echo of it."""
    ran = await stage.ask(client, "websocket", "/ws")
    assert ran.status == 0, ran.err
    assert ran.text.strip() == "hello from the sandbox"
    unlocked(stage.scene.upstream, "/ws")
    stage.scene.carried(("GET", "/ws", 101))


async def distrust(stage: Stage[RawUpstream], client: Client) -> None:
    """The client fails for want of trust, and says so; nothing comes to the upstream."""
    ran = await stage.ask(client, "get", "/bytes?n=1000", OTHER)
    assert not ran.out, ran
    assert "certif" in ran.err, ran
    assert not stage.scene.upstream.requests
    assert not stage.scene.stack.exchanges()


async def http2(folder: Path, client: Client) -> None:
    """A request that is HTTP/2 from the client to an upstream which speaks nothing else."""
    async with over_http2(folder) as stage:
        ran = await stage.ask(client, "get", "/bytes?n=300000")
        assert len(ran.out) == 300_000, ran.err
        unlocked(stage.scene.upstream, "/bytes")
        stage.scene.carried(("GET", "/bytes", 200))
        (line,) = stage.scene.stack.exchanges()
        assert (line["alpn"], line["upstream_alpn"]) == ("h2", "h2")
