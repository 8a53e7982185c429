"""The websockets package works through the proxy: messages of every size, pings, fragments, closes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.proxy.clients.scene import MASK, SECRET, WANTED, Scene, certs, through, unlocked
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.lab.raw_upstream import RawUpstream

MIB = 1024 * 1024


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene[RawUpstream]]:
    async with through(tmp_path, RawUpstream(certs.good(NAME), WANTED)) as scene:
        yield scene


def opened(scene: Scene[RawUpstream], path: str = "/ws", host: str = "") -> connect:
    """A WebSocket that is opened through the proxy; it asks for compression, as the package always does."""
    url = f"wss://{host}:{scene.port}{path}" if host else scene.url(path, "wss")
    return connect(url, proxy=scene.stack.url, ssl=scene.stack.trust(), max_size=None, open_timeout=30)


async def echoed(socket: ClientConnection, message: str | bytes) -> None:
    await socket.send(message)
    assert await socket.recv() == message


async def test_messages_come_back_as_they_were(scene: Scene[RawUpstream]) -> None:
    async with opened(scene) as socket:
        for message in ("hällo, wörld", "", b"\x00\xff" * 1000, b"", "\N{PARTY POPPER}" * 20_000):
            await echoed(socket, message)
    unlocked(scene.upstream, "/ws")
    scene.carried(("GET", "/ws", 101))


async def test_a_message_of_8_mib_passes(scene: Scene[RawUpstream]) -> None:
    async with opened(scene) as socket:
        await echoed(socket, bytes(range(256)) * (8 * MIB // 256))
    unlocked(scene.upstream, "/ws")
    scene.carried(("GET", "/ws", 101))
    line = scene.stack.exchanges()[0]
    for counted in (line["bytes_up"], line["bytes_down"]):
        assert isinstance(counted, int)
        assert 8 * MIB <= counted < 9 * MIB


async def test_a_ping_is_answered_by_the_upstream(scene: Scene[RawUpstream]) -> None:
    """Not by the proxy: a ping is how a client learns that the other end is alive."""
    async with asyncio.timeout(30), opened(scene) as socket:
        answered = await socket.ping(b"there?")
        await answered
    unlocked(scene.upstream, "/ws")
    scene.carried(("GET", "/ws", 101))


async def test_fragments_arrive_as_one_message(scene: Scene[RawUpstream]) -> None:
    async with opened(scene) as socket:
        await socket.send(["one ", "twö ", "", "three"])
        assert await socket.recv() == "one twö three"
    unlocked(scene.upstream, "/ws")
    scene.carried(("GET", "/ws", 101))


async def test_fragments_of_the_upstream_stay_in_order(scene: Scene[RawUpstream]) -> None:
    async with opened(scene, "/ws?parts=4") as socket:
        await socket.send("abcdefgh" * 100)
        parts = [part async for part in socket.recv_streaming()]
        assert "".join(part for part in parts if isinstance(part, str)) == "abcdefgh" * 100
        assert len(parts) > 1
    unlocked(scene.upstream, "/ws")
    scene.carried(("GET", "/ws", 101))


@pytest.mark.parametrize("code", [1000, 1001, 4001])
async def test_the_code_of_a_close_reaches_the_other_side_and_comes_back(
    scene: Scene[RawUpstream], code: int
) -> None:
    async with opened(scene) as socket:
        await socket.close(code, "enough")
        assert (socket.close_code, socket.close_reason) == (code, "enough")
    unlocked(scene.upstream, "/ws")
    scene.carried(("GET", "/ws", 101))


async def test_an_upstream_that_closes_shows_its_reason_without_the_secret(
    scene: Scene[RawUpstream],
) -> None:
    async with opened(scene) as socket:
        await socket.send("close")
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert (socket.close_code, socket.close_reason) == (1000, f"Bearer {MASK}")
    unlocked(scene.upstream, "/ws")
    scene.carried(("GET", "/ws", 101))


async def test_the_credential_comes_back_as_a_mask_wherever_it_is_said(scene: Scene[RawUpstream]) -> None:
    async with opened(scene, "/ws?parts=5") as socket:
        assert socket.response is not None
        assert socket.response.headers["x-echo"] == f"Bearer {MASK}"
        await socket.send("credential")
        assert await socket.recv() == f"Bearer {MASK}"
        # In five frames, so that no single one of them holds it.
        await socket.send(SECRET)
        assert await socket.recv() == MASK
    unlocked(scene.upstream, "/ws")
    scene.carried(("GET", "/ws", 101))


async def test_compression_is_never_agreed_on(scene: Scene[RawUpstream]) -> None:
    async with opened(scene) as socket:
        assert not socket.protocol.extensions
        await echoed(socket, "plain")
    assert scene.upstream.requests[0].header("sec-websocket-extensions") is None
    unlocked(scene.upstream, "/ws")
    scene.carried(("GET", "/ws", 101))


async def test_many_messages_in_a_row_keep_their_order(scene: Scene[RawUpstream]) -> None:
    async with opened(scene) as socket:

        async def send() -> None:
            for number in range(500):
                await socket.send(str(number) * (number % 50 + 1))

        sending = asyncio.ensure_future(send())
        for number in range(500):
            assert await socket.recv() == str(number) * (number % 50 + 1)
        await sending
    unlocked(scene.upstream, "/ws")
    scene.carried(("GET", "/ws", 101))


@pytest.mark.parametrize(
    ("path", "code", "status"),
    [("/private/ws", "rule.denied", 403), ("/small", "rule.websocket", 426)],
    ids=["deny", "no-allow"],
)
async def test_a_denied_upgrade_shows_why(
    scene: Scene[RawUpstream], path: str, code: str, status: int
) -> None:
    with pytest.raises(InvalidStatus) as caught:
        await opened(scene, path).__aenter__()
    response = caught.value.response
    assert (response.status_code, response.headers["egress-denied"]) == (status, code)
    assert json.loads(response.body or b"")["error"]["code"] == code
    assert not scene.upstream.links
    scene.denied(code, ("GET", path, status))


async def test_a_denied_host_shows_why(scene: Scene[RawUpstream]) -> None:
    with pytest.raises(InvalidStatus) as caught:
        await opened(scene, host="elsewhere.example.test").__aenter__()
    assert caught.value.response.headers["egress-denied"] == "host.unknown"
    assert not scene.upstream.links
    assert [line["code"] for line in scene.stack.exchanges()] == ["host.unknown"]
