"""What an attacker may cost a proxy as a process: heads of 64 MiB, heads without end, a bomb of 1 GiB.

Measured is the memory of the whole process at its peak, as the kernel has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.faults.memory_limit import MIB, bounded, packed, told, unpack
from tests.faults.proxy_lab import API
from tests.proxy.lab.upstream_request import UpstreamRequest

# Its memory is its own from the start: what a fork server has freed would hide what is taken.
pytestmark = pytest.mark.real_process

HEAD = 64 * MIB
BOMB = 1024 * MIB
STALLED = 24
FIELD = b"x-%d: " + b"x" * 60_000 + b"\r\n"


async def test_a_request_head_of_64_mib(tmp_path: Path) -> None:
    async with bounded(tmp_path) as estate:
        async with await estate.visit() as peer:
            await peer.send(b"GET /small/x HTTP/1.1\r\n")
            with pytest.raises(OSError):  # noqa: PT011 - reset, or a broken pipe
                await pour(peer.send, HEAD)
        [line] = [each for each in await told(estate) if each["code"] != "rule.allowed"]
        assert line["code"] == "request.malformed"


@pytest.mark.parametrize("size", [HEAD, None], ids=["64-mib", "without-end"])
async def test_a_response_head(tmp_path: Path, size: int | None) -> None:
    async def much(visit: UpstreamRequest) -> None:
        await visit.channel.send(b"HTTP/1.1 200 OK\r\n")
        await pour(visit.channel.send, size)
        await visit.channel.send(b"content-length: 0\r\n\r\n")

    async with bounded(tmp_path) as estate:
        estate.api.handle("/much", much)
        async with await estate.visit() as peer:
            response = await peer.get("/much/x", estate.host(API))
        assert (response.status, response.header("egress-denied")) == (502, "upstream.malformed")


async def test_a_bomb_of_1_gib(tmp_path: Path) -> None:
    bomb = packed(BOMB, b"")
    assert len(bomb) < 2 * MIB
    async with bounded(tmp_path) as estate:
        response = await unpack(estate, bomb)
        assert not response.complete
        assert response.size < 64 * MIB
        [line] = [each for each in await told(estate) if each["code"] != "rule.allowed"]
        assert line["code"] == "response.withheld"


async def test_clients_that_stop_reading_in_the_midst_of_a_body(tmp_path: Path) -> None:
    async with bounded(tmp_path) as estate:
        peers = [await estate.visit() for _ in range(STALLED)]
        for peer in peers:
            target = f"/bytes/x?n={HEAD} HTTP/1.1\r\nhost: {estate.host(API)}\r\n\r\n"
            await peer.send(f"GET {target}".encode())
            assert (await peer.head()).status == 200
        # Meanwhile buffers have filled up as far as they do: others are served all the time.
        for _ in range(20):
            assert await estate.is_well()
        for peer in peers:
            await peer.channel.drop()


async def pour(send: Callable[[bytes], Awaitable[None]], size: int | None) -> None:
    """Send fields: as many as that, or as many as are taken."""
    sent = 0
    while size is None or sent < size:
        await send(FIELD % sent)
        sent += len(FIELD)
