"""A connection in the full lane, from its beginning to when nothing of it is left.

What happens when something in it breaks is in tests/attack/test_guard.py, what happens when something
around it does in test_faults.py.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from egress.proxy.dial import Dialer
from egress.proxy.handler import Handler
from egress.proxy.lane import FullLimits
from egress.proxy.wire import Wire
from egress.secrets.resolver import Resolver
from tests.attack.test_guard import head, whole
from tests.proxy.lab.client import at, dial, open_tunnel
from tests.proxy.lab.faults import FIRST, LAST, Scene
from tests.proxy.lab.stack import NAME
from tests.unit.proxy.hellos import real


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with Scene.of(tmp_path) as scene:
        yield scene


async def test_nothing_is_left_of_a_connection_that_is_over(scene: Scene) -> None:
    """Handler, relay, layers and connections are freed, for each way in which it can end."""
    left: list[weakref.ref[object]] = []

    async def watched(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene))
            await scene.read(peer, FIRST)
            found = scene.handler()
            assert found is not None
            assert found.relay is not None
            left.extend(weakref.ref(each) for each in (found, found.relay, found.client, found._layer))
            left.extend(weakref.ref(wire.connection) for wire in found._wires.values())
            del found
            scene.release()
            await scene.read(peer)

    for _ in range(3):
        await scene.play(watched)
    # A task that is done is let go of when the loop comes round.
    await asyncio.sleep(0)
    gc.collect()
    assert len(left) == 3 * 6
    assert not [each() for each in left if each() is not None]


async def test_secrets_under_way_are_known_by_name(scene: Scene) -> None:
    """What is revoked takes the connections with it that use it."""
    used: list[frozenset[str]] = []

    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            found = scene.handler()
            assert found is not None
            used.append(found.secrets)
            await peer.send(head(scene))
            await scene.read(peer, FIRST)
            used.append(found.secrets)
            scene.release()
            await scene.read(peer)

    await scene.play(story)
    assert used == [frozenset(), frozenset({"api"})]


async def test_a_connection_before_its_first_byte_of_http_can_be_closed(scene: Scene) -> None:
    """Twice, even: it is recorded once."""

    async def story(scene: Scene) -> None:
        peer = await dial(at(scene.stack.port))
        await open_tunnel(peer, f"{NAME}:{scene.good}")
        await peer.send(real(NAME))
        await scene.until(lambda: scene.handler() is not None)
        found = scene.handler()
        assert found is not None
        found.close("access.withdrawn")
        found.close("proxy.stopping")
        found.drain()
        found.tick(scene.stack.clock.monotonic() + FullLimits().client_tls + 1)
        await peer.channel.everything()
        await peer.channel.drop()

    assert (await scene.play(story)).records == ["access.withdrawn"]


async def test_a_connection_that_is_lost_already_ends_at_once(scene: Scene) -> None:
    """Its transport was closed before the lane was given it, so nobody would tell of it again."""
    start = Handler.start

    def lost(handler: Handler, transport: asyncio.Transport, ahead: bytes) -> None:
        transport.abort()
        start(handler, transport, ahead)

    async def story(scene: Scene) -> None:
        scene.patch.setattr(Handler, "start", lost)
        await whole(scene)

    assert (await scene.play(story)).records == ["protocol.refused"]


async def test_a_drained_connection_finishes_what_is_under_way(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene, more=""))
            await scene.read(peer, FIRST)
            found = scene.handler()
            assert found is not None
            found.drain()
            scene.release()
            await scene.read(peer)

    seen = await scene.play(story)
    assert LAST in seen.data
    assert seen.ended


async def test_a_peer_that_does_not_take_the_last_bytes_is_not_waited_for(scene: Scene) -> None:
    """A close waits for what was written to be taken; that has an end."""

    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            # As if the buffers between us and the client were full.
            scene.patch.setattr(Wire, "close", lambda _: None)
            await peer.send(head(scene))
            await scene.read(peer, FIRST)
            found = scene.handler()
            assert found is not None
            scene.release()
            await scene.until(lambda: bool(found._closing))
            found.tick(scene.stack.clock.monotonic())
            assert found.client.id in found._wires
            found.tick(scene.stack.clock.monotonic() + FullLimits().closing + 1)
            await scene.read(peer)

    assert (await scene.play(story)).records == ["rule.allowed"]


@pytest.mark.parametrize("goodbye", [True, False])
async def test_a_client_that_leaves_while_its_secret_is_fetched_is_noticed(
    scene: Scene, goodbye: bool
) -> None:
    fetching, called_off = asyncio.Event(), asyncio.Event()

    async def never(*_: object) -> None:
        fetching.set()
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()

    async def story(scene: Scene) -> None:
        scene.patch.setattr(Resolver, "cached", lambda *_: None)
        scene.patch.setattr(Resolver, "resolve", never)
        peer = await scene.visit(scene.good)
        await peer.send(head(scene))
        await fetching.wait()
        await (peer.channel.close() if goodbye else peer.channel.reset())
        await called_off.wait()
        scene.patch.undo()

    assert (await scene.play(story)).records == ["client.left"]


@pytest.mark.parametrize("goodbye", [True, False])
async def test_a_client_that_leaves_while_its_upstream_is_dialled_is_noticed(
    scene: Scene, goodbye: bool
) -> None:
    """Reading goes on meanwhile, and nobody dials any longer for it."""
    dialling, called_off = asyncio.Event(), asyncio.Event()

    async def never(*_: object) -> None:
        dialling.set()
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()

    async def story(scene: Scene) -> None:
        scene.patch.setattr(Dialer, "_race", never)
        peer = await scene.visit(scene.good)
        await peer.send(head(scene))
        await dialling.wait()
        await (peer.channel.close() if goodbye else peer.channel.reset())
        await called_off.wait()

    assert (await scene.play(story)).records == ["client.left"]
