"""A proxy as a process that may not need much more memory than it has, whatever it is made to do."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from tests.faults.process_stats import forget_peak, peak, resident
from tests.faults.proxy_lab import API, ProxyLab
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.upstream_request import UpstreamRequest

MIB: Final = 1024 * 1024
MAX_GROWTH_BYTES: Final = 50 * MIB
"""What any of it may cost."""
WARM_UP_REQUESTS: Final = 40


@contextlib.asynccontextmanager
async def bounded(folder: Path) -> AsyncIterator[ProxyLab]:
    """A proxy that has been at work, whose memory may not grow by much from here on."""
    async with ProxyLab.of(folder) as estate:
        for number in range(WARM_UP_REQUESTS):
            async with await estate.visit() as peer:
                assert (await peer.get(f"/bytes/{number}?n=100000", estate.host(API))).complete
        pid = estate.served.process.pid
        before = resident(pid)
        forget_peak(pid)
        yield estate
        cost = peak(pid) - before
        assert cost < MAX_GROWTH_BYTES, f"{cost / MIB:.0f} MiB"
        assert await estate.is_well()


async def unpack(estate: ProxyLab, contents: bytes) -> Response:
    """What comes of an answer that the proxy has to unpack to search it."""

    async def answer(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.answer(contents, (("content-encoding", "gzip"),))

    estate.api.handle("/packed", answer)
    async with await estate.visit() as peer:
        await peer.send(f"GET /packed/x HTTP/1.1\r\nhost: {estate.host(API)}\r\n\r\n".encode())
        return await peer.response(keep=1)


def packed(size: int, noise: bytes) -> bytes:
    """So many bytes as gzip has them: zeros, and in each mebibyte this noise."""
    packer = zlib.compressobj(9, wbits=31)
    block = noise + bytes(MIB - len(noise))
    return b"".join([*(packer.compress(block) for _ in range(size // MIB)), packer.flush()])


async def told(estate: ProxyLab) -> list[dict[str, object]]:
    return await asyncio.to_thread(estate.served.recorded, "exchange", WARM_UP_REQUESTS + 1)
