"""What a handler does when something in it fails, one step at a time.

The same from outside, with every call made to fail, is in tests/attack/test_guard.py; how a connection goes
that nothing fails in, in tests/proxy/lanes/test_intercept_handler.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from mitmproxy.connection import Connection, ConnectionState, Server
from mitmproxy.proxy import commands, events, server_hooks
from mitmproxy.proxy.context import Context

from egress.addons.guard import UndecidedError
from egress.addons.http_layers import (
    AbortConnection,
    CallRelay,
    FetchSecrets,
    SecondPassed,
    SecretsFetched,
    SetReading,
    TakeAnotherTurn,
    WriteBlocked,
)
from egress.addons.tls_layers import ConnectionLost
from egress.addons.withheld_options import NO_OPTIONS
from egress.proxy.lanes import awaited_answers
from egress.proxy.lanes.awaited_answers import TakeEvent, ask
from egress.proxy.lanes.dial import ConnectedSocket, Dialer, DialError
from egress.proxy.lanes.intercept_handler import InterceptHandler
from egress.proxy.lanes.intercept_lane import InterceptLane
from egress.proxy.lanes.intercept_limits import InterceptLimits
from egress.proxy.lanes.relay_services import RelayServices
from egress.proxy.lanes.socket_transport import SocketTransport
from egress.relay.http1_downstream import Http1Downstream
from egress.relay.http2_downstream import Http2Downstream
from egress.relay.ports import Fetch, RelayOrder
from egress.relay.relay import Relay
from egress.secrets.resolver import SecretResolver
from egress.types import Secret
from tests.proxy.lab.client import Peer, at, dial, open_tunnel
from tests.proxy.lab.failing_call import FIRST, SECRET, Scene, SeenCall
from tests.proxy.lab.loopback import loopback_only
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.lab.server import LOOPBACK
from tests.unit.proxy.hellos import real

Step = Callable[[Scene, InterceptHandler], Awaitable[None]]


@pytest.fixture(autouse=True)
def on_loopback() -> Iterator[None]:
    """A handler is what its connections make of it, so they are real."""
    with loopback_only():
        yield


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with Scene.of(tmp_path) as scene:
        yield scene


def fails(*_: object, **__: object) -> NoReturn:
    raise KeyError(SECRET)


def handler_of(scene: Scene) -> InterceptHandler:
    found = scene.handler()
    assert found is not None
    return found


def is_closed(wire: SocketTransport) -> bool:
    return wire.transport is None or wire.transport.is_closing()


def head(port: int, *, last: bool) -> bytes:
    more = "connection: close\r\n" if last else ""
    return f"GET /story HTTP/1.1\r\nhost: {NAME}:{port}\r\n{more}\r\n".encode()


@contextlib.asynccontextmanager
async def greeted(scene: Scene) -> AsyncIterator[InterceptHandler]:
    """A client in the middle of its handshake."""
    peer: Peer = await dial(at(scene.stack.port))
    await open_tunnel(peer, f"{NAME}:{scene.good}")
    await peer.send(real(NAME))
    await scene.until(lambda: scene.handler() is not None)
    try:
        yield handler_of(scene)
        await peer.channel.everything()
    finally:
        await peer.channel.drop()


async def in_handshake(scene: Scene, step: Step) -> SeenCall:
    async def story(scene: Scene) -> None:
        async with greeted(scene) as found:
            await step(scene, found)

    return await scene.play(story)


async def under_way(scene: Scene, step: Step) -> SeenCall:
    """Take a step while the first half of a response has come."""

    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene.good, last=True))
            await scene.read(peer, FIRST)
            await step(scene, handler_of(scene))
            scene.release()
            await scene.read(peer)

    return await scene.play(story)


async def between(scene: Scene, step: Step) -> SeenCall:
    """Take a step on a connection whose first exchange is over."""

    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene.good, last=False))
            await scene.read(peer, FIRST)
            scene.release()
            await scene.read(peer, b"0\r\n\r\n")
            await scene.until(lambda: handler_of(scene).services.finished == 1)
            await step(scene, handler_of(scene))
            await scene.read(peer)

    return await scene.play(story)


class Noted:
    """Stands where the layers stand: notes what comes, and answers the first event with commands."""

    def __init__(self, found: InterceptHandler, *answers: commands.Command) -> None:
        self.seen: list[events.Event] = []
        self.then: Callable[[], None] = lambda: None
        self._answers = answers
        self._is_inside = False
        found._layer = self  # type: ignore[assignment]

    def handle_event(self, event: events.Event) -> Iterator[commands.Command]:
        assert not self._is_inside, "entered twice at a time"
        self._is_inside = True
        self.seen.append(event)
        if len(self.seen) == 1:
            self.then()
            yield from self._answers
        self._is_inside = False


# A fault ends everything, and is told once ---------------------------------------------------------


async def test_a_fault_between_two_exchanges_has_a_record_of_its_own(scene: Scene) -> None:
    """The record of the exchange before it says that all went well."""

    async def step(scene: Scene, found: InterceptHandler) -> None:
        scene.patch.setattr(Relay, "tick", fails)
        found.tick(scene.stack.clock.monotonic())
        assert found.gone.done()

    assert (await between(scene, step)).records == ["rule.allowed", "internal"]
    assert "connection.failed" in scene.log.text


async def test_a_connection_that_rests_is_looked_at_now_and_then(scene: Scene) -> None:
    """A look at each of a thousand, each second, costs as much as the requests of some of them."""

    async def step(scene: Scene, found: InterceptHandler) -> None:
        scene.stack.stop_ticks()
        await scene.until(lambda: not scene.stack.full._ticking)
        looked: list[InterceptHandler] = []
        scene.patch.setattr(InterceptHandler, "tick", lambda handler, _: looked.append(handler))
        now, rest = scene.stack.clock.monotonic(), InterceptLimits().relay.rest_tick
        found._ticked = now
        assert not found.needs_tick(now + 0.9 * rest)
        assert found.needs_tick(now + rest)
        scene.stack.full.tick()
        assert found not in scene.stack.full._ticking
        found._ticked = now - rest
        scene.stack.full.tick()
        await scene.until(lambda: found in looked)
        assert found in looked
        found.close("proxy.stopping")

    await between(scene, step)


async def test_a_connection_with_an_exchange_is_looked_at_each_second(scene: Scene) -> None:
    async def step(scene: Scene, found: InterceptHandler) -> None:
        assert found.needs_tick(found._ticked)

    await under_way(scene, step)


async def test_a_connection_in_its_handshake_is_looked_at_each_second(scene: Scene) -> None:
    async def step(_: Scene, found: InterceptHandler) -> None:
        assert found.needs_tick(found._ticked)
        found.close("proxy.stopping")

    await in_handshake(scene, step)


async def test_a_connection_that_closes_is_looked_at_each_second(scene: Scene) -> None:
    async def step(_: Scene, found: InterceptHandler) -> None:
        assert not found.needs_tick(found._ticked)
        found._closing[next(iter(found._wires.values()))] = found._ticked
        assert found.needs_tick(found._ticked)
        found.close("proxy.stopping")

    await between(scene, step)


async def test_a_connection_whose_rest_cannot_be_told_ends_and_its_lane_goes_on(scene: Scene) -> None:
    def fails(_: Relay) -> bool:
        raise KeyError(SECRET)

    async def step(scene: Scene, found: InterceptHandler) -> None:
        assert not found.gone.done()
        scene.patch.setattr(Relay, "is_resting", property(fails))
        scene.stack.full.tick()
        assert found.gone.done()

    assert (await under_way(scene, step)).records == ["internal"]
    assert SECRET not in scene.log.text


async def test_a_second_fault_is_not_recorded_again(scene: Scene) -> None:
    async def step(_: Scene, found: InterceptHandler) -> None:
        found._fail(KeyError(SECRET))
        found.event(SecondPassed())
        found._fail(KeyError(SECRET))
        assert found.gone.done()

    assert (await under_way(scene, step)).records == ["internal"]


async def test_an_event_that_comes_while_a_fault_is_recorded_has_no_effect(scene: Scene) -> None:
    async def step(scene: Scene, found: InterceptHandler) -> None:
        shut = Relay.shut

        def tell_and_shut(relay: Relay, code: str) -> list[RelayOrder]:
            found.event(SecondPassed())
            return shut(relay, code)

        scene.patch.setattr(Relay, "shut", tell_and_shut)
        found._fail(KeyError(SECRET))

    assert (await under_way(scene, step)).records == ["internal"]
    assert scene.log.text.count("connection.failed") == 1


async def test_a_fault_that_cannot_be_recorded_still_closes_everything(scene: Scene) -> None:
    """And is told twice: what went wrong, and that no record says so."""

    async def step(scene: Scene, found: InterceptHandler) -> None:
        scene.patch.setattr(Relay, "shut", fails)
        scene.patch.setattr(RelayServices, "refuse", fails)
        wires = list(found._wires.values())
        found._fail(RuntimeError(SECRET))
        assert found.gone.done()
        assert all(map(is_closed, wires))

    await under_way(scene, step)
    [failed] = [line for line in scene.log.lines if "connection.failed" in line]
    [unrecorded] = [line for line in scene.log.lines if "connection.unrecorded" in line]
    assert "RuntimeError" in failed
    assert "KeyError" in unrecorded
    [one] = {line.partition("'connection': '")[2].partition("'")[0] for line in (failed, unrecorded)}
    assert one


async def test_after_the_end_no_event_does_anything(scene: Scene) -> None:
    async def step(_: Scene, found: InterceptHandler) -> None:
        layer = Noted(found)
        found.event(SecondPassed())
        found._hang_up()
        found.event(SecondPassed())
        found._layer = None
        found.received(found._wires[found.client.id], b"more")
        assert len(layer.seen) == 1

    await in_handshake(scene, step)
    assert "connection.failed" not in scene.log.text


async def test_a_refusal_by_an_add_on_is_no_fault(scene: Scene) -> None:
    """It is recorded in the words of the add-on."""

    async def step(_: Scene, found: InterceptHandler) -> None:
        found.was_refused, found.reason = True, "upstream.tls"
        found._fail(UndecidedError("no connection of OpenSSL"))
        assert found.gone.done()

    assert (await in_handshake(scene, step)).records == ["upstream.tls"]
    assert "connection.failed" not in scene.log.text


@pytest.mark.parametrize(
    ("error", "was_refused"), [(KeyError(SECRET), True), (UndecidedError(SECRET), False)]
)
async def test_what_is_not_both_is_a_fault(scene: Scene, error: Exception, was_refused: bool) -> None:
    async def step(_: Scene, found: InterceptHandler) -> None:
        found.was_refused, found.reason = was_refused, "upstream.tls"
        found._fail(error)

    assert (await in_handshake(scene, step)).records == ["internal"]
    assert "connection.failed" in scene.log.text


async def test_a_new_handler_was_not_refused_by_anybody(scene: Scene) -> None:
    """An add-on that fails before it has said why is a fault."""

    async def step(_: Scene, found: InterceptHandler) -> None:
        other = InterceptHandler(found._lane, found.services)
        other._fail(UndecidedError(SECRET))
        assert other.gone.done()
        found._is_recorded = True
        found.close("proxy.stopping")

    assert (await in_handshake(scene, step)).records == ["internal"]
    assert "connection.failed" in scene.log.text


def refuses(*_: object, **__: object) -> NoReturn:
    raise UndecidedError("an add-on has said why")


@pytest.mark.parametrize("place", ["layer", "hook", "dial"])
async def test_a_refusal_by_an_add_on_is_one_wherever_it_comes_up(scene: Scene, place: str) -> None:
    async def step(scene: Scene, found: InterceptHandler) -> None:
        found.was_refused, found.reason = True, "upstream.tls"
        server = Server(address=(NAME, scene.good))
        match place:
            case "layer":
                Noted(found).then = refuses
                found.event(SecondPassed())
            case "hook":
                scene.patch.setitem(scene.stack.full.guard._hooks, "server_disconnected", (refuses,))
                found.lost(SocketTransport(found, server, found.services))
            case _:
                scene.patch.setattr(InterceptHandler, "_check", refuses)
                await found._open(commands.OpenConnection(server))
        assert found.gone.done()

    assert (await in_handshake(scene, step)).records == ["upstream.tls"]
    assert "connection.failed" not in scene.log.text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
async def test_the_end_of_the_process_passes_through_an_event(scene: Scene, error: type) -> None:
    def ends() -> NoReturn:
        raise error

    async def step(_: Scene, found: InterceptHandler) -> None:
        Noted(found).then = ends
        with pytest.raises(error):
            found.event(SecondPassed())
        assert found.gone.done()

    assert (await in_handshake(scene, step)).records == ["internal"]


async def test_the_end_of_the_process_is_not_swallowed(scene: Scene) -> None:
    async def step(_: Scene, found: InterceptHandler) -> None:
        for error in (SystemExit(), KeyboardInterrupt()):
            with pytest.raises(type(error)):
                found._fail(error)
            assert found.gone.done()

    assert (await in_handshake(scene, step)).records == ["internal"]


# What comes from outside ---------------------------------------------------------------------------


async def test_a_recheck_that_cannot_decide_ends_the_connection(scene: Scene) -> None:
    async def step(scene: Scene, found: InterceptHandler) -> None:
        scene.patch.setattr(InterceptLane, "still_allows", fails)
        found.recheck(scene.stack.engine.policy, scene.stack.clock.now())
        assert found.gone.done()

    assert (await under_way(scene, step)).records == ["internal"]
    assert "connection.failed" in scene.log.text


async def test_a_recheck_is_about_the_addresses_in_use(scene: Scene) -> None:
    """What they deny is closed; what they still allow is for the relay to look at, exchange by exchange."""
    asked: list[object] = []
    told: list[object] = []

    async def step(scene: Scene, found: InterceptHandler) -> None:
        policy, now = scene.stack.engine.policy, scene.stack.clock.now()

        def relay(_: object, *about: object) -> list[RelayOrder]:
            told.append(about)
            return []

        scene.patch.setattr(Relay, "recheck", relay)
        for answer in (True, False):

            def lane(_: object, *about: object, answer: bool = answer) -> bool:
                asked.append(about)
                return answer

            scene.patch.setattr(InterceptLane, "still_allows", lane)
            found.recheck(policy, now)
        assert told == [(policy, now)]
        assert asked == [(found.admitted, policy, now, [LOOPBACK])] * 2

    assert (await under_way(scene, step)).records == ["access.withdrawn"]


async def test_a_close_is_told_in_the_record_of_what_was_under_way(scene: Scene) -> None:
    async def step(_: Scene, found: InterceptHandler) -> None:
        found.close("access.withdrawn")

    assert (await under_way(scene, step)).records == ["access.withdrawn"]
    assert [line["code"] for line in scene.stack.exchanges() if line["path"] == "/story"] == [
        "access.withdrawn"
    ]


async def test_a_retired_connection_ends_with_its_next_answer(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene.good, last=False))
            await scene.read(peer, FIRST)
            scene.release()
            await scene.read(peer, b"0\r\n\r\n")
            found = handler_of(scene)
            await scene.until(lambda: found.services.finished == 1)
            assert b"connection: close" not in scene.seen.data.lower()
            found.retire()
            assert not found.gone.done()
            await peer.send(head(scene.good, last=False))
            # To the end, which comes although the client asks for none.
            await scene.read(peer)

    seen = await scene.play(story)
    assert b"connection: close" in seen.data.lower()
    assert seen.records == ["rule.allowed", "rule.allowed"]


async def test_a_handshake_goes_on_when_its_proxy_leaves(scene: Scene) -> None:
    async def step(_: Scene, found: InterceptHandler) -> None:
        found.retire()
        assert not found.gone.done()
        found.close("proxy.stopping")

    assert (await in_handshake(scene, step)).records == ["proxy.stopping"]


async def test_a_close_that_cannot_be_recorded_is_one_nevertheless(scene: Scene) -> None:
    async def step(scene: Scene, found: InterceptHandler) -> None:
        scene.patch.setattr(RelayServices, "refuse", fails)
        found.close("access.withdrawn")
        assert found.gone.done()
        assert all(map(is_closed, found._wires.values()))

    await in_handshake(scene, step)
    assert "connection.failed" in scene.log.text


async def test_a_lane_that_is_left_records_what_was_under_way(scene: Scene) -> None:
    async def step(_: Scene, found: InterceptHandler) -> None:
        found.leave()
        assert found.gone.done()
        found.leave()

    assert (await under_way(scene, step)).records == ["proxy.stopping"]


async def test_a_connection_that_cannot_begin_is_recorded(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        scene.patch.setattr(SocketTransport, "adopt", fails)
        async with await scene.visit(scene.good):
            raise AssertionError

    assert (await scene.play(story)).records == ["internal"]


async def test_a_connection_that_was_lost_before_it_began_ends(scene: Scene) -> None:
    """Nobody tells of the loss a second time."""

    async def step(_: Scene, found: InterceptHandler) -> None:
        near, far = socket.socketpair()
        with far:
            transport, _protocol = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, sock=near
            )
            transport.abort()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            other = InterceptHandler(found._lane, found.services)
            other.start(transport, b"")
            assert other.gone.done()
        found.close("proxy.stopping")

    assert (await in_handshake(scene, step)).records == ["proxy.stopping"]


# Events and commands -------------------------------------------------------------------------------


async def test_events_come_one_after_the_other(scene: Scene) -> None:
    """What happens while another is carried out waits for its turn."""

    async def step(_: Scene, found: InterceptHandler) -> None:
        layer = Noted(found)
        one, two, three = SecondPassed(), SecondPassed(), SecondPassed()

        def more() -> None:
            found.event(two)
            found.event(three)

        layer.then = more
        found.event(one)
        assert layer.seen == [one, two, three]
        found.close("proxy.stopping")

    await in_handshake(scene, step)


@pytest.mark.parametrize("is_told", [True, False])
async def test_an_end_is_told_once_and_a_loss_as_one(scene: Scene, is_told: bool) -> None:
    """Where the peer has said that it ends, nothing of it can be missing."""

    async def step(_: Scene, found: InterceptHandler) -> None:
        layer, wire = Noted(found), found._wires[found.client.id]
        found.blocked(wire, blocked=True)
        found.received(wire, b"data")
        if is_told:
            found.ended(wire)
            assert found.client.state is ConnectionState.CAN_WRITE
        found.lost(wire)
        assert found.gone.done()
        assert found.client.state is ConnectionState.CLOSED
        blocked, received, ended, gone = layer.seen
        assert isinstance(blocked, WriteBlocked)
        assert blocked.blocked
        assert isinstance(received, events.DataReceived)
        assert received.data == b"data"
        assert isinstance(ended, events.ConnectionClosed | ConnectionLost)
        assert type(ended) is (events.ConnectionClosed if is_told else ConnectionLost)
        assert blocked.connection is received.connection is ended.connection is found.client
        assert isinstance(gone, CallRelay)
        assert gone.name == "gone"
        assert wire.transport is not None
        wire.transport.abort()

    assert (await in_handshake(scene, step)).records == ["protocol.refused"]


async def test_what_no_lane_knows_ends_the_connection(scene: Scene) -> None:
    class Strange(commands.Command):
        pass

    async def step(_: Scene, found: InterceptHandler) -> None:
        Noted(found, Strange())
        found.event(SecondPassed())
        assert found.gone.done()

    assert (await in_handshake(scene, step)).records == ["internal"]


async def test_what_is_meant_for_a_connection_that_is_gone_is_left(scene: Scene) -> None:
    """Layers hear of an end later than the sockets do; what mitmproxy would log is no command either."""

    async def step(_: Scene, found: InterceptHandler) -> None:
        gone = Server(address=(NAME, scene.good))
        gone.state = ConnectionState.OPEN
        layer = Noted(
            found,
            commands.Log("a request"),
            commands.SendData(gone, b"for nobody"),
            SetReading(gone, reads=False),
            AbortConnection(gone),
            commands.CloseConnection(gone),
        )
        found.event(SecondPassed())
        assert not found.gone.done()
        assert len(layer.seen) == 1
        assert gone.state is ConnectionState.CLOSED
        assert not found._closing
        found.close("proxy.stopping")

    assert (await in_handshake(scene, step)).records == ["proxy.stopping"]


async def test_another_turn_comes_after_everything_that_is_ready(scene: Scene) -> None:
    async def step(scene: Scene, found: InterceptHandler) -> None:
        layer = Noted(found, TakeAnotherTurn())
        found.event(SecondPassed())
        assert len(layer.seen) == 1
        await scene.until(lambda: len(layer.seen) > 1)
        again = layer.seen[1]
        assert isinstance(again, CallRelay)
        assert (again.name, again.arguments) == ("again", ())
        found.close("proxy.stopping")

    await in_handshake(scene, step)


async def test_a_relay_is_told_how_the_client_came(scene: Scene) -> None:
    """Without TLS, or without a protocol that was agreed on, the record says so by saying nothing."""

    async def step(_: Scene, found: InterceptHandler) -> None:
        context = Context(found.client, NO_OPTIONS)
        found.client.tls_version, found.client.alpn = None, None
        layer = found.http(context, "h2")
        assert (found.services.client_tls, found.services.alpn) == ("", "")
        assert layer.relay is found.relay
        assert isinstance(found.relay, Relay)
        assert found.relay.service is found.services
        assert found.relay.identity is found.services.sandbox.identity
        assert found.relay.destination is found.admitted.destination
        assert found.relay.limits is found._lane.limits.relay
        assert isinstance(layer.relay._client, Http2Downstream)
        found.client.tls_version, found.client.alpn = "TLSv1.2", b"http/1.1"
        for entry in ("absolute", "connect"):
            found.admitted = replace(found.admitted, entry=entry)
            client = found.http(context, "http/1.1").relay._client
            assert isinstance(client, Http1Downstream)
            assert (client._reader._fits is not None) is (entry == "absolute")
        assert (found.services.client_tls, found.services.alpn) == ("TLSv1.2", "http/1.1")
        found.relay = None
        found.close("proxy.stopping")

    await in_handshake(scene, step)


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_close_sends_what_waits_and_an_abort_drops_it(scene: Scene, at_once: bool) -> None:
    called: list[str] = []

    async def step(scene: Scene, found: InterceptHandler) -> None:
        wire = found._wires[found.client.id]
        for name, real_one in (("abort", SocketTransport.abort), ("close", SocketTransport.close)):

            def noted(
                wire: SocketTransport,
                name: str = name,
                real_one: Callable[[SocketTransport], None] = real_one,
            ) -> None:
                called.append(name)
                real_one(wire)

            scene.patch.setattr(SocketTransport, name, noted)
        Noted(found, (AbortConnection if at_once else commands.CloseConnection)(found.client))
        found.event(SecondPassed())
        assert found.client.state is ConnectionState.CLOSED
        assert (wire in found._closing) is not at_once

    await in_handshake(scene, step)
    assert called[0] == ("abort" if at_once else "close")


async def test_the_end_of_a_closed_connection_does_not_open_it_again(scene: Scene) -> None:
    """Its peer ends after we have closed: nothing may be written to it any more."""

    async def step(_: Scene, found: InterceptHandler) -> None:
        Noted(found)
        found.client.state = ConnectionState.CLOSED
        found.ended(found._wires[found.client.id])
        assert found.client.state is ConnectionState.CLOSED
        found.close("proxy.stopping")

    await in_handshake(scene, step)


# Upstream connections ------------------------------------------------------------------------------


def lingering() -> tuple[ConnectedSocket, socket.socket]:
    """A connection that was made, and its far end."""
    near, far = socket.socketpair()
    far.setblocking(False)
    return ConnectedSocket(near, LOOPBACK, 1, 1), far


@pytest.mark.parametrize("why", ["given up", "ended"])
async def test_a_connection_that_nobody_waits_for_is_closed(scene: Scene, why: str) -> None:
    """It was made while its dial was given up, or while everything ended."""

    async def step(_: Scene, found: InterceptHandler) -> None:
        server = Server(address=(NAME, scene.good))
        if why == "ended":
            found._opening[server] = 0.0
            found._has_ended = True
        connected, far = lingering()
        with far:
            await found._connected(commands.OpenConnection(server), server, connected)
            assert server.id not in found._wires
            assert server not in found._routes
            assert server.state is ConnectionState.CLOSED
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert far.recv(1) == b""
        found._has_ended = False
        found.close("proxy.stopping")

    await in_handshake(scene, step)


async def test_a_connection_that_stands_is_noted_with_its_address_and_its_times(scene: Scene) -> None:
    async def step(scene: Scene, found: InterceptHandler) -> None:
        layer, server = Noted(found), Server(address=(NAME, scene.good))
        near, far = socket.socketpair()
        with far:
            found._opening[server] = 0.0
            command = commands.OpenConnection(server)
            await found._connected(command, server, ConnectedSocket(near, LOOPBACK, 3, 4))
            route = found._routes[server]
            assert (route.address, route.resolve, route.connect) == (LOOPBACK, 3, 4)
            assert 0.0 < found._opening[server] <= scene.stack.clock.monotonic()
            assert found._wires[server.id].connection is server
            assert server.state is ConnectionState.OPEN
            [told] = layer.seen
            assert isinstance(told, events.OpenConnectionCompleted)
            assert (told.command, told.reply) == (command, None)
            found.close("proxy.stopping")

    await in_handshake(scene, step)


@pytest.mark.parametrize("is_late", [True, False])
async def test_a_dial_that_is_called_off_says_why(scene: Scene, is_late: bool) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    async def step(scene: Scene, found: InterceptHandler) -> None:
        layer, server = Noted(found), Server(address=(NAME, scene.good))
        scene.patch.setattr(InterceptLane, "dial", never)
        command = commands.OpenConnection(server)
        found._start(server, lambda: found._open(command))
        await scene.until(lambda: server in found._opening)
        if is_late:
            found._late.add(server)
        found._tasks[server].cancel()
        await scene.until(lambda: not found._tasks)
        assert server not in found._opening
        [told] = layer.seen
        assert isinstance(told, events.OpenConnectionCompleted)
        assert (told.command, told.reply) == (command, "upstream.timeout" if is_late else "internal")
        found.close("proxy.stopping")

    await in_handshake(scene, step)


async def test_a_dial_that_is_given_up_is_called_off(scene: Scene) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    async def step(scene: Scene, found: InterceptHandler) -> None:
        layer, server = Noted(found), Server(address=(NAME, scene.good))
        scene.patch.setattr(InterceptLane, "dial", never)
        command = commands.OpenConnection(server)
        found._start(server, lambda: found._open(command))
        await scene.until(lambda: server in found._opening)
        found._give_up(server)
        await scene.until(lambda: not found._tasks)
        [told] = layer.seen
        assert isinstance(told, events.OpenConnectionCompleted)
        assert (told.command, told.reply) == (command, "upstream.timeout")
        found.close("proxy.stopping")

    await in_handshake(scene, step)


async def test_an_end_calls_off_the_dial_of_its_own_connection_alone(scene: Scene) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async def step(scene: Scene, found: InterceptHandler) -> None:
        Noted(found)
        dialling, other = Server(address=(NAME, scene.good)), Server(address=(NAME, scene.good))
        for server in (dialling, other):
            found._start(server, never)
            found._opening[server] = 0.0
        mine, theirs = found._tasks[dialling], found._tasks[other]
        found._end(dialling, at_once=True)
        assert (mine.cancelling(), theirs.cancelling()) == (1, 0)
        assert list(found._opening) == [other]
        # It stands: its task is past the dial, and hands on what it has found.
        found._wires[other.id] = SocketTransport(found, other, found.services)
        found._end(other, at_once=True)
        assert theirs.cancelling() == 0
        assert not found._opening
        del found._wires[other.id]
        theirs.cancel()
        # Nothing is known of it any more, which is no fault.
        found._end(other, at_once=False)
        found.close("proxy.stopping")

    await in_handshake(scene, step)


async def test_an_upstream_that_closes_at_once_is_none(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        adopt = SocketTransport.adopt

        def closed(wire: SocketTransport, transport: asyncio.Transport) -> None:
            adopt(wire, transport)
            if isinstance(wire.connection, Server):
                transport.abort()

        scene.patch.setattr(SocketTransport, "adopt", closed)
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene.good, last=True))
            await scene.read(peer)

    seen = await scene.play(story)
    assert seen.records == ["upstream.unreachable"]
    assert not seen.requests
    assert "the upstream closed the connection at once" in scene.log.text


@pytest.mark.parametrize("other", [("elsewhere.example", 0, None), (NAME, 1, None), (NAME, 0, "via")])
async def test_only_the_destination_is_ever_dialled(scene: Scene, other: tuple[str, int, str | None]) -> None:
    """Another name, another port, and the way round each are a fault."""
    host, further, way = other

    async def step(_: Scene, found: InterceptHandler) -> None:
        server = Server(address=(host, scene.good + further))
        if way is not None:
            server.via = ("http", ("elsewhere.example", 3128))
        with pytest.raises(TypeError):
            found._check(server)
        found._check(Server(address=(NAME, scene.good)))
        found.close("proxy.stopping")

    await in_handshake(scene, step)


async def test_a_hook_is_told_of_each_upstream_as_it_comes_and_goes(scene: Scene) -> None:
    """And of an upstream that is gone the handler keeps nothing."""
    told: list[tuple[str, object, object]] = []

    async def story(scene: Scene) -> None:
        hooks = scene.stack.full.guard._hooks
        for name in ("server_connect", "server_disconnected"):

            def note(data: server_hooks.ServerConnectionHookData, name: str = name) -> None:
                told.append((name, data.client, data.server))

            scene.patch.setitem(hooks, name, (*hooks.get(name, ()), note))
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene.good, last=False))
            await scene.read(peer, FIRST)
            found = handler_of(scene)
            [server] = found._routes
            found._late.add(server)
            assert isinstance(server, Server)
            assert told == [("server_connect", found.client, server)]
            wire = found._wires[server.id]
            found._closing[wire] = scene.stack.clock.monotonic()
            assert wire.transport is not None
            wire.transport.abort()
            await scene.until(lambda: len(told) == 2)
            assert told[1] == ("server_disconnected", found.client, server)
            assert set(found._wires) <= {found.client.id}
            assert not {*found._routes, *found._late, *found._opening}
            assert wire not in found._closing
            await scene.read(peer)

    assert (await scene.play(story)).records == ["upstream.closed"]


async def test_a_dial_that_breaks_ends_the_connection(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        scene.patch.setattr(InterceptHandler, "_check", fails)
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene.good, last=True))
            await scene.read(peer)

    seen = await scene.play(story)
    assert seen.records == ["internal"]
    assert not seen.requests


async def test_a_hook_that_fails_when_an_upstream_goes_ends_the_connection(scene: Scene) -> None:
    async def step(scene: Scene, found: InterceptHandler) -> None:
        scene.patch.setitem(scene.stack.full.guard._hooks, "server_disconnected", (fails,))
        [server] = found._routes
        wire = found._wires[server.id]
        assert wire.transport is not None
        wire.transport.abort()
        await scene.until(found.gone.done)

    await under_way(scene, step)
    assert "connection.failed" in scene.log.text


async def test_a_handshake_with_an_upstream_has_its_time_and_no_more(scene: Scene) -> None:
    """It is connected, and says nothing."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def story(scene: Scene) -> None:
        async with (
            await asyncio.start_server(silent, LOOPBACK, scene.closed),
            await scene.visit(scene.closed) as peer,
        ):
            await peer.send(head(scene.closed, last=True))
            await scene.until(lambda: bool(handler_of(scene)._routes))
            found = handler_of(scene)
            ((server, since),) = found._opening.items()
            wire = found._wires[server.id]
            found.tick(since + InterceptLimits().upstream_open)
            assert not is_closed(wire)
            found.tick(since + InterceptLimits().upstream_open + 0.5)
            assert is_closed(wire)
            assert server not in found._opening
            await scene.read(peer)

    seen = await scene.play(story)
    assert seen.records == ["upstream.timeout"]
    assert b"egress-denied: upstream.timeout" in seen.data


async def test_a_dial_that_fails_is_told_with_its_reason(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.closed) as peer:
            await peer.send(head(scene.closed, last=True))
            await scene.read(peer)

    assert (await scene.play(story)).records == ["upstream.unreachable"]
    [line] = [line for line in scene.log.lines if "upstream.not_dialled" in line]
    assert NAME in line
    assert "upstream.unreachable" in line


async def test_a_failed_upstream_keeps_only_the_routes_that_are_open(scene: Scene) -> None:
    kept: list[tuple[object, ...]] = []

    async def step(scene: Scene, found: InterceptHandler) -> None:
        ((server, route),) = found._routes.items()
        assert isinstance(server, Server)
        scene.patch.setattr(
            RelayServices, "keep", lambda _, *about: kept.append((about[0], about[1], [*about[2]]))
        )
        found.failure_code(7, server, "upstream.closed")
        found._opening[server] = scene.stack.clock.monotonic()
        assert found.is_fit(8, server)
        assert kept == [(7, route, [route]), (8, route, [route])]

    await under_way(scene, step)


async def test_an_upstream_that_was_given_up_twice_is_no_fault(scene: Scene) -> None:
    """The dial may have ended in the same turn as its time."""

    async def step(_: Scene, found: InterceptHandler) -> None:
        layer, server = Noted(found), Server(address=(NAME, scene.good))
        found._opening[server] = 0.0
        found._give_up(server)
        found._give_up(server)
        assert server in found._late
        assert not found._opening
        assert layer.seen == []
        assert not found.gone.done()
        found.close("proxy.stopping")

    assert (await in_handshake(scene, step)).records == ["proxy.stopping"]


@pytest.mark.parametrize(
    ("code", "refused"), [("upstream.unreachable", ()), ("address.refused", ("10.9.8.7",))]
)
async def test_a_dial_that_failed_is_answered_once_and_forgotten(
    scene: Scene, code: str, refused: tuple[str, ...]
) -> None:
    """The record shows an address that was refused; no later change of the rules looks at it."""

    async def step(scene: Scene, found: InterceptHandler) -> None:
        layer, server = Noted(found), Server(address=(NAME, scene.good))
        other = Server(address=(NAME, scene.good))
        found._opening.update({server: 0.0, other: 0.0})
        addresses: list[str] = []
        asked: list[Collection[str]] = []

        def allows(*about: Collection[str]) -> bool:
            asked.append(about[-1])
            return True

        layer.then = lambda: addresses.extend(route.address for route in found._routes.values())
        command = commands.OpenConnection(server)
        found._not_opened(command, code, *refused)
        assert list(found._opening) == [other]
        assert addresses == list(refused)
        [event] = layer.seen
        assert isinstance(event, events.OpenConnectionCompleted)
        assert (event.command, event.reply) == (command, code)
        scene.patch.setattr(InterceptLane, "still_allows", allows)
        found.recheck(scene.stack.engine.policy, 0)
        assert asked == [[]]
        found.close("proxy.stopping")

    await in_handshake(scene, step)


async def test_an_address_that_was_refused_is_known_while_its_failure_is_told(scene: Scene) -> None:
    addresses: list[str] = []

    async def refused(*_: object) -> NoReturn:
        raise DialError("address.refused", "of no network that is open", address="10.9.8.7")

    async def step(scene: Scene, found: InterceptHandler) -> None:
        layer, server = Noted(found), Server(address=(NAME, scene.good))
        layer.then = lambda: addresses.extend(route.address for route in found._routes.values())
        scene.patch.setattr(InterceptLane, "dial", refused)
        await found._open(commands.OpenConnection(server))
        assert [each.reply for each in layer.seen if isinstance(each, events.OpenConnectionCompleted)] == [
            "address.refused"
        ]
        found.close("proxy.stopping")

    await in_handshake(scene, step)
    assert addresses == ["10.9.8.7"]


# Secrets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_unscrubbed", [True, False])
async def test_a_source_is_asked_for_the_secrets_of_the_exchange(scene: Scene, is_unscrubbed: bool) -> None:
    """A value too short to be searched for passes only where the rule has it so."""
    asked: list[object] = []

    async def step(scene: Scene, found: InterceptHandler) -> None:
        policy = scene.stack.engine.policy
        layer = Noted(found)

        async def resolve(_: object, *about: object) -> dict[str, Secret]:
            asked.append(about)
            return {"api": secret}

        secret = Secret("api", SECRET.encode())
        scene.patch.setattr(SecretResolver, "resolve", resolve)
        command = FetchSecrets(Fetch(5, policy, ("api",), is_unscrubbed))
        waits = ask(found.event, scene.stack.engine, command, 5.0)
        assert waits is not None
        await waits()
        assert asked == [((policy.secrets["api"],), ("api",) if is_unscrubbed else ())]
        [told] = layer.seen
        assert isinstance(told, SecretsFetched)
        assert (told.ticket, told.secrets) == (5, {"api": secret})
        found.close("proxy.stopping")

    await in_handshake(scene, step)


async def test_all_sources_that_are_asked_are_called_off_at_the_end(scene: Scene) -> None:
    begun: list[int] = []
    called_off: list[int] = []

    async def waits(_: TakeEvent, __: object, command: FetchSecrets, ___: float) -> None:
        begun.append(command.order.ticket)
        try:
            await asyncio.Event().wait()
        finally:
            called_off.append(command.order.ticket)

    async def step(scene: Scene, found: InterceptHandler) -> None:
        policy = scene.stack.engine.policy
        scene.patch.setattr(awaited_answers, "_fetch_secrets", waits)
        Noted(found, *(FetchSecrets(Fetch(ticket, policy, ("api",))) for ticket in (5, 6)))
        found.event(SecondPassed())
        assert set(found._tasks) == {5, 6}
        # A task that is cancelled before it begins would call off nothing.
        await scene.until(lambda: len(begun) == 2)
        found.close("proxy.stopping")
        await scene.until(lambda: not found._tasks)
        assert sorted(called_off) == [5, 6]

    await in_handshake(scene, step)


async def test_a_source_has_its_time_and_no_more(tmp_path: Path) -> None:
    """The resolver has a limit of its own; where it is not kept, the request is denied all the same."""

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    async def story(scene: Scene) -> None:
        scene.patch.setattr(SecretResolver, "cached", lambda *_, **__: None)
        scene.patch.setattr(SecretResolver, "resolve", never)
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene.good, last=True))
            await scene.read(peer)

    async with Scene.of(tmp_path, InterceptLimits(secrets=0.05)) as scene:
        seen = await scene.play(story)
    assert seen.records == ["secret.unavailable"]
    assert not seen.requests
    assert "TimeoutError" in scene.log.text


# Tasks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [(Dialer, "connect"), (SecretResolver, "resolve")])
async def test_nothing_runs_on_after_the_end(scene: Scene, what: tuple[type, str]) -> None:
    """A dial, and a secret that is fetched, are called off with the connection."""
    begun, called_off = asyncio.Event(), asyncio.Event()

    async def waits(*_: object, **__: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()

    async def story(scene: Scene) -> None:
        scene.patch.setattr(SecretResolver, "cached", lambda *_, **__: None)
        scene.patch.setattr(*what, waits)
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene.good, last=True))
            await begun.wait()
            found = handler_of(scene)
            assert found._tasks
            found._fail(KeyError(SECRET))
            await called_off.wait()
            await scene.until(lambda: not found._tasks)
            scene.patch.undo()
            await scene.read(peer)

    await scene.play(story)


async def test_a_task_that_is_done_is_forgotten_but_not_its_successor(scene: Scene) -> None:
    async def nothing() -> None:
        pass

    async def step(_: Scene, found: InterceptHandler) -> None:
        never = asyncio.Event()

        async def waits() -> None:
            await never.wait()

        key: Connection | int = 77
        found._start(key, nothing)
        # Told after the handler, which asked first.
        is_told = asyncio.Event()
        found._tasks[key].add_done_callback(lambda _: is_told.set())
        found._start(key, waits)
        await is_told.wait()
        assert key in found._tasks
        never.set()
        await scene.until(lambda: key not in found._tasks)
        found.close("proxy.stopping")

    await in_handshake(scene, step)


async def test_a_secret_that_could_not_be_had_is_named_and_denies(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        scene.patch.setattr(SecretResolver, "cached", lambda *_, **__: None)
        scene.patch.setattr(SecretResolver, "resolve", fails)
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene.good, last=True))
            await scene.read(peer)

    seen = await scene.play(story)
    assert seen.records == ["secret.unavailable"]
    assert not seen.requests
    [line] = [line for line in scene.log.lines if "secret.failed" in line]
    assert "api" in line
    assert "KeyError" in line
