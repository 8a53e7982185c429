"""Gigabytes pass through the proxy, up and down, in constant memory.

EGRESS_TEST_GIB says how many each time: half of one where it is not set, and 5 at night. Half of one shows a
proxy that keeps one byte in thirty. The proxy runs in a process of its own; curl is the client, which does
not care how much it is.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import pytest

from tests.proxy.clients.program import Ran, run
from tests.proxy.clients.scene import WANTED, Line, certs, unlocked, write_secret
from tests.proxy.lab.http1 import body_parts
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest

pytestmark = [pytest.mark.system("curl", "curl"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
MIB = 1024 * 1024
MUCH = int(float(os.environ.get("EGRESS_TEST_GIB", "0.25")) * 1024) * MIB  # noqa: TID251 - how long a run may take
WARMING = 64 * MIB
MOST_GROWTH = 16 * MIB
PATIENCE = 300.0
BLOCK = bytes(MIB)


class Said(TypedDict, total=False):
    """What the other process prints: where it listens, later how it is."""

    url: str
    ca: str
    peak: int
    exchanges: list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Proxy:
    """The other process."""

    process: asyncio.subprocess.Process
    url: str
    ca: str

    async def ask(self) -> tuple[int, list[dict[str, object]]]:
        """Its largest size so far, in bytes, and the exchanges in its log."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        found = await answer(self.process)
        return found["peak"] * 1024, found["exchanges"]


async def answer(process: asyncio.subprocess.Process) -> Said:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        while not (line := await process.stdout.readline()).startswith(b"{"):
            assert line, "the proxy did not come up"
        found: Said = json.loads(line)
        return found


@asynccontextmanager
async def proxied(folder: Path, upstream: RawUpstream) -> AsyncIterator[Proxy]:
    write_secret(folder)
    ca = certs.write_ca(folder / "ca.pem")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.proxy.clients.bulk_proxy", str(folder), str(upstream.port), str(ca)),
        cwd=ROOT,
        env={"PATH": os.defpath, "HOME": str(folder)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        found = await answer(process)
        yield Proxy(process, found["url"], found["ca"])
    finally:
        process.kill()
        await process.wait()


async def much(visit: UpstreamRequest) -> None:
    """`n` bytes."""
    await visit.body()
    left = visit.number("n", 0)
    await visit.begin("200 OK", (("content-length", str(left)),), "application/octet-stream")
    while left:
        await visit.channel.send(BLOCK[:left])
        left -= min(left, MIB)


async def count(visit: UpstreamRequest) -> None:
    """How many bytes came; they are neither kept nor hashed."""
    request = visit.request
    if request.header("expect"):
        await visit.channel.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    async for part in body_parts(visit.channel, request, to_the_end=False):
        request.size += len(part)
    await visit.answer(b"%d\n" % request.size)


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    upstream = RawUpstream(certs.good(NAME), WANTED)
    upstream.handle("/much", much)
    upstream.handle("/count", count)
    async with upstream:
        yield upstream


async def curl(proxy: Proxy, *arguments: str) -> Ran:
    common = ("--disable", "--silent", "--show-error", "--proxy", proxy.url, "--cacert", proxy.ca)
    ran = await run(Path(proxy.ca).parent, "curl", *common, *arguments, patience=PATIENCE)
    assert ran.status == 0, ran.err
    return ran


def carried(exchanges: list[dict[str, object]], key: str, *wanted: tuple[Line, int]) -> None:
    assert len(exchanges) == len(wanted)
    for line, ((method, path, status), size) in zip(exchanges, wanted, strict=True):
        assert (line["method"], line["path"], line["status"], line[key]) == (method, path, status, size)
        assert (line["code"], line["injected"]) == (
            "rule.allowed",
            [{"secret": "api", "slot": "header:authorization"}],
        )


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
async def test_a_download_takes_no_more_memory_than_a_small_one(
    tmp_path: Path, upstream: RawUpstream, version: str
) -> None:
    async with proxied(tmp_path, upstream) as proxy:
        url = f"https://{NAME}:{upstream.port}/much?n="

        async def get(size: int) -> None:
            told = ("--output", os.devnull, "--write-out", "%{size_download}")
            assert (await curl(proxy, version, *told, f"{url}{size}")).text == str(size)

        await get(WARMING)
        before, _ = await proxy.ask()
        await get(MUCH)
        after, exchanges = await proxy.ask()
        assert after - before < MOST_GROWTH
        unlocked(upstream, "/much", "/much")
        got = ("GET", "/much", 200)
        carried(exchanges, "bytes_down", (got, WARMING), (got, MUCH))


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
async def test_an_upload_takes_no_more_memory_than_a_small_one(
    tmp_path: Path, upstream: RawUpstream, version: str
) -> None:
    async with proxied(tmp_path, upstream) as proxy:

        async def put(size: int) -> None:
            with (tmp_path / "body").open("wb") as file:
                file.truncate(size)  # a hole: it takes no room
            sent = ("--upload-file", "body", f"https://{NAME}:{upstream.port}/count")
            assert (await curl(proxy, version, *sent)).text == f"{size}\n"

        await put(WARMING)
        before, _ = await proxy.ask()
        await put(MUCH)
        after, exchanges = await proxy.ask()
        assert after - before < MOST_GROWTH
        unlocked(upstream, "/count", "/count")
        sent = ("PUT", "/count", 200)
        carried(exchanges, "bytes_up", (sent, WARMING), (sent, MUCH))
