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
from mitmproxy.connection import Server

from egress.proxy.lanes.dial import Dialer
from egress.proxy.lanes.intercept_handler import InterceptHandler
from egress.proxy.lanes.intercept_limits import InterceptLimits
from egress.proxy.lanes.socket_transport import SocketTransport
from egress.secrets.resolver import SecretResolver
from tests.attack.test_guard import head, whole
from tests.proxy.lab.client import Peer, at, dial, open_tunnel
from tests.proxy.lab.failing_call import FIRST, LAST, Scene
from tests.proxy.lab.proxy_stack import NAME
from tests.unit.proxy.hellos import real


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with Scene.of(tmp_path) as scene:
        yield scene


async def test_nothing_is_left_of_a_connection_that_is_over(scene: Scene) -> None:
    """Handler, relay, layers and connections are freed, and without the garbage collector.

    It would free them hundreds at once, while every sandbox waits.
    """
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

    gc.disable()
    try:
        for _ in range(3):
            await scene.play(watched)
        # A task that is done is let go of when the loop comes round.
        for _ in range(3):
            await asyncio.sleep(0)
    finally:
        gc.enable()
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
        found.tick(scene.stack.clock.monotonic() + InterceptLimits().client_tls + 1)
        await peer.channel.everything()
        await peer.channel.drop()

    assert (await scene.play(story)).records == ["access.withdrawn"]


async def greeted(scene: Scene) -> tuple[Peer, InterceptHandler]:
    """A client in the middle of its handshake, and the handler of its connection."""
    peer = await dial(at(scene.stack.port))
    await open_tunnel(peer, f"{NAME}:{scene.good}")
    await peer.send(real(NAME))
    await scene.until(lambda: scene.handler() is not None)
    found = scene.handler()
    assert found is not None
    return peer, found


async def test_a_handshake_is_not_waited_for_when_the_proxy_stops(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        peer, found = await greeted(scene)
        found.drain()
        assert found.gone.done()
        await peer.channel.everything()
        await peer.channel.drop()

    assert (await scene.play(story)).records == ["proxy.stopping"]


async def test_a_handshake_has_its_time_and_no_more(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        peer, found = await greeted(scene)
        found.tick(found._since + InterceptLimits().client_tls)
        assert not found.gone.done()
        found.tick(found._since + InterceptLimits().client_tls + 0.5)
        assert found.gone.done()
        await peer.channel.everything()
        await peer.channel.drop()

    assert (await scene.play(story)).records == ["request.timeout"]


async def test_a_connection_that_is_lost_already_ends_at_once(scene: Scene) -> None:
    """Its transport was closed before the lane was given it, so nobody would tell of it again."""
    start = InterceptHandler.start

    def lost(handler: InterceptHandler, transport: asyncio.Transport, ahead: bytes) -> None:
        transport.abort()
        start(handler, transport, ahead)

    async def story(scene: Scene) -> None:
        scene.patch.setattr(InterceptHandler, "start", lost)
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
            scene.patch.setattr(SocketTransport, "close", lambda _: None)
            await peer.send(head(scene))
            await scene.read(peer, FIRST)
            found = scene.handler()
            assert found is not None
            scene.release()
            aborted: list[SocketTransport] = []
            abort = SocketTransport.abort

            def noted(wire: SocketTransport) -> None:
                aborted.append(wire)
                abort(wire)

            scene.patch.setattr(SocketTransport, "abort", noted)
            await scene.until(lambda: found._wires.get(found.client.id) in found._closing)
            since = found._closing[found._wires[found.client.id]]
            found.tick(since + InterceptLimits().closing)
            assert not aborted
            found.tick(since + InterceptLimits().closing + 0.5)
            assert found._wires.get(found.client.id) in (None, *aborted)
            assert aborted
            await scene.read(peer)

    assert (await scene.play(story)).records == ["rule.allowed"]


async def test_an_upstream_has_its_time_and_no_more(scene: Scene) -> None:
    dialling, called_off = asyncio.Event(), asyncio.Event()

    async def never(*_: object) -> None:
        dialling.set()
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()

    async def story(scene: Scene) -> None:
        scene.patch.setattr(Dialer, "_race", never)
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene))
            await dialling.wait()
            found = scene.handler()
            assert found is not None
            ((server, since),) = found._opening.items()
            found.tick(since + InterceptLimits().upstream_open)
            assert server in found._opening
            found.tick(since + InterceptLimits().upstream_open + 0.5)
            assert server not in found._opening
            await called_off.wait()
            await scene.read(peer)

    assert (await scene.play(story)).records == ["upstream.timeout"]


async def test_an_upstream_is_used_only_when_it_was_dialled_and_proved_itself(scene: Scene) -> None:
    """Where one of the three is missing, nothing is sent, whatever a layer says."""

    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene))
            await scene.read(peer, FIRST)
            found = scene.handler()
            assert found is not None
            ((server, route),) = found._routes.items()
            assert isinstance(server, Server)
            proof = found._lane.tls.proof(server)
            assert proof is not None
            now = scene.stack.clock.monotonic()
            assert not found.is_fit(90, server), "it was fit once, and is not opened anew"
            found._opening[server] = now - 3
            scene.patch.setattr(found.services, "monotonic", lambda: now)
            assert found.is_fit(91, server)
            assert (route.tls, route.tls_version) == (3_000_000, proof.version)
            assert found.services.routes[91] is route
            found._opening[server] = now
            scene.patch.setattr(type(found._lane.tls), "proof", lambda *_: None)
            assert not found.is_fit(92, server)
            found._opening[server] = now
            del found._routes[server]
            assert not found.is_fit(93, server)
            assert not {90, 92, 93} & found.services.routes.keys()
            found._routes[server] = route
            scene.release()
            await scene.read(peer)

    assert (await scene.play(story)).records == ["rule.allowed"]


async def test_why_an_upstream_was_not_used_is_told_in_a_code_of_ours(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene))
            await scene.read(peer, FIRST)
            found = scene.handler()
            assert found is not None
            ((server, route),) = found._routes.items()
            assert isinstance(server, Server)
            assert found.failure_code(80, server, "upstream.closed") == "upstream.closed"
            assert found.failure_code(81, server, "certificate verify failed") == "upstream.tls"
            assert found.services.routes[80] is found.services.routes[81] is route, (
                "the record says where it was"
            )
            found._late.add(server)
            assert found.failure_code(82, server, "upstream.closed") == "upstream.timeout"
            found._late.clear()
            scene.release()
            await scene.read(peer)

    assert (await scene.play(story)).records == ["rule.allowed"]


async def test_the_record_says_how_the_client_came(scene: Scene) -> None:
    await scene.play(whole)
    record = scene.stack.exchanges()[-1]
    assert (record["client_tls"], record["alpn"]) == ("TLSv1.3", "http/1.1")


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
        scene.patch.setattr(SecretResolver, "cached", lambda *_: None)
        scene.patch.setattr(SecretResolver, "resolve", never)
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
