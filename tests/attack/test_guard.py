"""Class 23: whatever breaks inside the full lane, nothing passes that was not allowed, nothing hangs.

S-28: every hook of mitmproxy, every entry of the relay and every call that the lane makes is made to
fail, at each time it is called while clients go through their stories. The calls are found in the code, so
a new one fails here until it is covered. S-29: a value that does not come denies, within its limit.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
import pytest_asyncio
from mitmproxy.connection import Server
from mitmproxy.exceptions import AddonHalt, OptionsError
from mitmproxy.hooks import all_hooks
from mitmproxy.proxy import layer, server_hooks
from mitmproxy.proxy.commands import StartHook
from mitmproxy.proxy.layers import tls

from egress.addons import http_layers
from egress.addons.guard import error_location
from egress.addons.http_layers import ConnectionOwner, HttpLayer, NextLayerChooser
from egress.addons.tls_hooks import TlsHooks
from egress.audit.sink import Sink
from egress.proxy.lanes import denial_lane, intercept_handler, intercept_lane, relay_services
from egress.proxy.lanes.denial_lane import DenialLane, DenialServices
from egress.proxy.lanes.dial import Dialer
from egress.proxy.lanes.engine import LimitCounters
from egress.proxy.lanes.intercept_handler import InterceptHandler
from egress.proxy.lanes.intercept_lane import FailedHandshakes, InterceptLane
from egress.proxy.lanes.intercept_limits import InterceptLimits
from egress.proxy.lanes.relay_services import RelayServices
from egress.relay.ports import RelayEnvironment
from egress.relay.relay import Relay
from egress.secrets.resolver import SecretResolver
from tests.conftest import IS_NIGHTLY
from tests.proxy.lab.client import Peer, at, connect
from tests.proxy.lab.failing_call import FIRST, LAST, SECRET, CallFault, Scene
from tests.proxy.lab.http2 import Http2Client
from tests.proxy.lab.loopback import loopback_only
from tests.proxy.lab.proxy_stack import KEY, NAME, policy_of
from tests.proxy.lab.server import LOOPBACK
from tests.proxy.lab.websocket import NONCE
from tests.tiers import pairwise

in_one_loop = pytest.mark.asyncio(loop_scope="module")
"""For tests with the scene that all share: a proxy stays in its loop."""

Story = Callable[[Scene], Awaitable[None]]
Point = tuple[type | None, str]
"""A call that can fail, or a hook where there is no owner."""
DENIED = "evil.example.test"


@pytest.fixture(autouse=True)
def on_loopback() -> Iterator[None]:
    """What breaks in a lane can only be shown with real connections around it."""
    with loopback_only():
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    with loopback_only():
        made = Scene.of(tmp_path_factory.mktemp("scene"))
        scene = await made.__aenter__()
    yield scene
    with loopback_only():
        await made.__aexit__(None, None, None)


Times = dict[str, dict[Point, int]]
"""How often each story makes each call."""


@pytest.fixture
async def fresh(tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene for one test, which changes more than its story does, or counts connections."""
    async with Scene.of(tmp_path) as scene:
        yield scene


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def times(scene: Scene) -> Times:
    """Stories without a fault, each told once."""
    with loopback_only():
        hooks: list[Point] = [(None, name) for name in HOOKS]
        return {name: await scene.count(story, [*POINTS, *hooks]) for name, story in STORIES.items()}


# Stories ------------------------------------------------------------------------------------------


def head(scene: Scene, port: int = 0, more: str = "connection: close\r\n") -> bytes:
    return f"GET /story HTTP/1.1\r\nhost: {NAME}:{port or scene.good}\r\n{more}\r\n".encode()


def poke(scene: Scene) -> None:
    """What comes from outside of a connection while its response is under way."""
    found = scene.handler()
    wire = found._wires.get(found.client.id) if found is not None else None
    if found is None or wire is None:
        return
    found.blocked(wire, blocked=True)
    found.blocked(wire, blocked=False)
    found.tick(scene.stack.clock.monotonic())
    found.recheck(scene.stack.engine.policy, scene.stack.clock.now())


async def whole(scene: Scene) -> None:
    """A request whose secret has to be fetched, a response in two parts, and the end."""
    scene.patch.setattr(scene.stack.secrets, "cached", lambda *_, **__: None)
    async with await scene.visit(scene.good) as peer:
        await peer.send(head(scene))
        await scene.read(peer, FIRST)
        poke(scene)
        scene.release()
        await scene.read(peer)


async def warm(scene: Scene) -> None:
    """The client keeps the connection for a while, then leaves."""
    async with await scene.visit(scene.good) as peer:
        await peer.send(head(scene, more=""))
        await scene.read(peer, FIRST)
        scene.release()
        await scene.read(peer, b"0\r\n\r\n")
        if scene.handler() is not None:
            poke(scene)
        await peer.channel.finish()
        await scene.read(peer)


async def queried(scene: Scene) -> None:
    """A request whose query is kept, after a look whether it holds a secret."""
    async with await scene.visit(scene.good) as peer:
        await peer.send(head(scene).replace(b"/story", b"/story?page=2"))
        await scene.read(peer, FIRST)
        scene.release()
        await scene.read(peer)


async def handled(scene: Scene) -> None:
    """A request that a handler is asked about."""
    async with await scene.visit(scene.good) as peer:
        await peer.send(head(scene).replace(b"/story", b"/handled"))
        await scene.read(peer, FIRST)
        scene.release()
        await scene.read(peer)


async def over_http2(scene: Scene) -> None:
    async with await scene.visit(scene.good, "h2") as peer:
        client = Http2Client(peer.channel)
        async with client:
            stream = await client.start_with(
                (
                    (":method", "GET"),
                    (":scheme", "https"),
                    (":authority", f"{NAME}:{scene.good}"),
                    (":path", "/story"),
                ),
                end=True,
            )
            await client.conversation.until(lambda: FIRST in stream.body or stream.complete)
            poke(scene)
            scene.release()
            await client.conversation.until(lambda: stream.complete)
            scene.seen.data += stream.body
        scene.seen.ended = True


async def in_turns(scene: Scene) -> None:
    """A WebSocket: its frames come together with the switch, and are too many for one turn."""
    upgrade = (
        f"GET /frames HTTP/1.1\r\nhost: {NAME}:{scene.good}\r\nupgrade: websocket\r\n"
        f"connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: {NONCE}\r\n\r\n"
    )
    async with await scene.visit(scene.good) as peer:
        await peer.send(upgrade.encode())
        await scene.read(peer, b"HTTP/1.1 101")
        if not scene.seen.data.startswith(b"HTTP/1.1 101"):
            await peer.channel.finish()
        await scene.read(peer)


async def decoded(scene: Scene) -> None:
    """A compressed response that takes several turns, since none has time for more than a piece."""
    scene.patch.setattr(scene.stack.engine.turns, "seconds", 1e-6)
    async with await scene.visit(scene.good) as peer:
        await peer.send(head(scene).replace(b"/story", b"/decoded"))
        await scene.read(peer)


async def unproven(scene: Scene) -> None:
    """The upstream has a certificate that nobody believes."""
    async with await scene.visit(scene.unproven) as peer:
        await peer.send(head(scene, scene.unproven))
        await scene.read(peer)


async def away(scene: Scene) -> None:
    """Nobody listens there."""
    async with await scene.visit(scene.closed) as peer:
        await peer.send(head(scene, scene.closed))
        await scene.read(peer)


async def malformed(scene: Scene) -> None:
    async with await scene.visit(scene.good) as peer:
        await peer.send(b"GET  /story HTTP/1.1\r\n\r\n")
        await scene.read(peer, b"}\n}\n")
        await peer.channel.finish()
        await scene.read(peer)


async def vanishes(scene: Scene) -> None:
    """A client that leaves in the middle of the response."""
    async with await scene.visit(scene.good) as peer:
        await peer.send(head(scene))
        await scene.read(peer, FIRST)
        await peer.channel.reset()
    scene.seen.ended = True


async def ask_denied(scene: Scene, *alpn: str) -> Peer:
    """A client whose host no rule names: it reads why inside of its TLS, and that is all."""
    stack = scene.stack
    return await connect(at(443), DENIED, stack.trust(*(alpn or ("http/1.1",))), proxy=stack.proxy)


async def denied(scene: Scene) -> None:
    async with await ask_denied(scene) as peer:
        poke(scene)
        await peer.send(f"GET /story HTTP/1.1\r\nhost: {DENIED}\r\nconnection: close\r\n\r\n".encode())
        await scene.read(peer)


async def denied_over_http2(scene: Scene) -> None:
    async with await ask_denied(scene, "h2") as peer:
        client = Http2Client(peer.channel)
        async with client:
            stream = await client.get(DENIED, "/story")
            poke(scene)
            scene.seen.data += stream.body
        scene.seen.ended = True


async def denied_until_a_reload(scene: Scene) -> None:
    async with await ask_denied(scene) as peer:
        if (found := scene.handler()) is not None:
            found.recheck(policy_of("version: 1\nhosts: {}"), scene.stack.clock.now())
        await scene.read(peer)


async def never_speaks(scene: Scene) -> None:
    """A client that does not believe our certificate."""
    stack = scene.stack
    await connect(at(scene.good), NAME, stack.certs.trust(("http/1.1",)), proxy=stack.proxy)


def told(order: Callable[[InterceptHandler], None]) -> Story:
    """A response under way when something comes from the proxy itself."""

    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene))
            await scene.read(peer, FIRST)
            if (found := scene.handler()) is not None:
                order(found)
            scene.release()
            await scene.read(peer)

    return story


shut = told(lambda found: found.close("access.withdrawn"))
STORIES: dict[str, Story] = {
    "whole": whole,
    "warm": warm,
    "queried": queried,
    "handled": handled,
    "over HTTP/2": over_http2,
    "in turns": in_turns,
    "decoded": decoded,
    "unproven": unproven,
    "away": away,
    "malformed": malformed,
    "vanishes": vanishes,
    "never speaks": never_speaks,
    "denied": denied,
    "denied over HTTP/2": denied_over_http2,
    "denied until a reload": denied_until_a_reload,
    "drained": told(lambda found: found.drain()),
    "retired": told(lambda found: found.retire()),
    "shut": shut,
}

# What can fail ------------------------------------------------------------------------------------


def functions(owner: type) -> list[str]:
    """The public methods and properties of a class, as they stand in its code."""
    return [
        name
        for name, found in vars(owner).items()
        if not name.startswith("_") and (inspect.isfunction(found) or isinstance(found, property))
    ]


def calls(owner: str) -> set[str]:
    """What the lane calls on one part of the engine."""
    source = "".join(
        inspect.getsource(module)
        for module in (relay_services, intercept_lane, intercept_handler, denial_lane)
    )
    return set(re.findall(rf"engine\.{owner}\.(\w+)\(", source))


BEFORE = {"carry", "serve", "tick"}
"""The lane's own entries: what calls them is the door, and the ticking of the server."""

HANDED_ON = {"monotonic", "request_id", "turn", "buffer_bytes"}
"""Values and functions of the engine, the machine's clock among them: no call of ours that could fail."""

BEHIND = {"dissolve"}
"""Called behind the end, when all is closed and recorded: see the test of what cannot be taken apart."""

POINTS: list[tuple[type, str]] = [
    *((Relay, name) for name in functions(Relay) if name not in BEHIND),
    *((InterceptHandler, name) for name in functions(ConnectionOwner)),
    *((RelayServices, name) for name in functions(RelayEnvironment) if name not in HANDED_ON),
    *((InterceptLane, name) for name in functions(InterceptLane) if name not in BEFORE),
    *((DenialLane, name) for name in functions(DenialLane) if name not in BEFORE),
    *((DenialServices, name) for name in functions(DenialServices)),
    (InterceptHandler, "http"),
    *((HttpLayer, name) for name in vars(HttpLayer) if inspect.isfunction(vars(HttpLayer)[name])),
    *((Sink, name) for name in sorted(calls("audit"))),
    *((SecretResolver, name) for name in sorted(calls("secrets"))),
    *((Dialer, name) for name in sorted(calls("dialer"))),
    *((LimitCounters, name) for name in sorted(calls("counts"))),
    (TlsHooks, "proof"),
]
KINDS: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": lambda: RuntimeError(SECRET),
    "KeyError": lambda: KeyError(SECRET),
    "OptionsError": lambda: OptionsError(SECRET),  # type: ignore[no-untyped-call]
    "AddonHalt": AddonHalt,
    "TimeoutError": lambda: TimeoutError(SECRET),
    "CancelledError": lambda: asyncio.CancelledError(SECRET),
}
UNSEEN = {
    (Relay, "is_closed"),
    (Relay, "secrets"),
    (HttpLayer, "_handle_event"),
    (Relay, "hand_back"),
    *((DenialLane, name) for name in ("dial", "still_allows", "tls")),
    *((DenialServices, name) for name in ("secrets", "begin")),
}
"""What only others than the lane look at, what mitmproxy wants to be there, and what a denied connection must
never come to. A request for another host is handed back within `Relay.received`, which fails in every story;
such a story would have two records."""


@in_one_loop
async def test_control_every_story_comes_to_its_end(scene: Scene) -> None:
    """Without a fault: the secret arrives, both parts come back, and each story has its one record."""
    for name, story in STORIES.items():
        seen = await scene.play(story)
        assert len(seen.records) == 1, (name, seen)
    seen = await scene.play(whole)
    assert FIRST in seen.data
    assert LAST in seen.data
    assert seen.requests == 1


async def is_made(scene: Scene, story: Story, fault: CallFault) -> bool:
    """Let a call fail; whether it was made at all. What must hold is checked by the scene."""
    await scene.play(story, fault)
    return fault.fired


async def fails_each_time(scene: Scene, times: Times, point: Point, make: Callable[[], object]) -> bool:
    """Let a call fail in every story; whether it was made at all.

    The night has it fail at each time that it is made, until it is made no more. The gate has the first two
    times, of which the first one often begins something, and the last one, which often ends it.
    """
    made = False
    for name, story in STORIES.items():
        last = times[name][point]
        nth = 1
        while nth <= last or IS_NIGHTLY:
            if not await is_made(scene, story, CallFault(*point, make, nth)):
                break
            made = True
            nth = nth + 1 if IS_NIGHTLY or nth == 1 else max(nth + 1, last)
    return made


@pytest.mark.parametrize(
    ("owner", "name"), POINTS, ids=[f"{owner.__name__}.{name}" for owner, name in POINTS]
)
@in_one_loop
async def test_a_call_that_fails_ends_the_connection(
    scene: Scene, times: Times, owner: type, name: str
) -> None:
    """S-28: in every story."""
    made = await fails_each_time(scene, times, (owner, name), KINDS["KeyError"])
    assert made or (owner, name) in UNSEEN, "no story makes this call: write one"


OTHERS = [kind for kind in KINDS if kind != "KeyError"]
WITH_ALL: list[tuple[type, str]] = [
    (Relay, "received"),
    (HttpLayer, "handle_event"),
    (SecretResolver, "resolve"),
]
"""Calls that the gate too makes fail in every way: what the client sends, what mitmproxy asks, a secret."""


@pytest.mark.parametrize(
    ("point", "kind"), pairwise(POINTS, OTHERS, lambda point: f"{point[0].__name__}.{point[1]}", WITH_ALL)
)
@in_one_loop
async def test_it_does_not_matter_what_is_raised(
    scene: Scene, times: Times, point: tuple[type, str], kind: str
) -> None:
    """S-28: what mitmproxy or asyncio take for something else ends the connection just the same."""
    for name in ("whole", "warm", "unproven", "shut", "over HTTP/2", "denied", "denied until a reload"):
        if times[name][point] and await is_made(scene, STORIES[name], CallFault(*point, KINDS[kind])):
            return


# Hooks --------------------------------------------------------------------------------------------


MODULES = {module.__name__ for module in (tls, layer, server_hooks)}
HOOKS = [
    name for name, hook in all_hooks.items() if issubclass(hook, StartHook) and hook.__module__ in MODULES
]
NEVER = {"client_connected", "client_disconnected", "server_connected", "server_connect_error"}
"""Hooks of mitmproxy's own connection handler, which this lane does not have."""


async def later() -> None:
    """What a hook returns that wants to wait."""


ANSWERS: dict[str, Callable[[], object]] = {
    **KINDS,
    "awaitable": later,
    "nothing": lambda: None,
}


def test_every_hook_of_our_add_ons_is_among_those_that_are_made_to_fail() -> None:
    ours = {name for name in all_hooks for each in (NextLayerChooser, TlsHooks) if hasattr(each, name)}
    assert ours <= set(HOOKS) - NEVER


def test_the_add_ons_are_those_of_which_the_hooks_are_known(scene: Scene) -> None:
    lane = scene.stack.full
    assert [type(each) for each in lane.addons] == [NextLayerChooser, TlsHooks, FailedHandshakes]
    assert set(lane.guard.hooks) <= set(HOOKS) - NEVER


@pytest.mark.parametrize("answer", ["KeyError", "awaitable", "nothing"])
@pytest.mark.parametrize("name", HOOKS)
@in_one_loop
async def test_a_hook_that_fails_ends_the_connection(
    scene: Scene, times: Times, name: str, answer: str
) -> None:
    """S-28: it raises, returns something to wait for, or does nothing."""
    if answer == "nothing" and name not in scene.stack.full.guard.hooks:
        return  # then that is how it should be
    made = await fails_each_time(scene, times, (None, name), ANSWERS[answer])
    assert made is (name not in NEVER)


@pytest.mark.parametrize(
    ("name", "kind"), pairwise([name for name in HOOKS if name not in NEVER], OTHERS, str, ["next_layer"])
)
@in_one_loop
async def test_it_does_not_matter_what_a_hook_raises(scene: Scene, name: str, kind: str) -> None:
    """S-28: AddonHalt and OptionsError, which mitmproxy lets through, and all the others."""
    for story in STORIES.values():
        if await is_made(scene, story, CallFault(None, name, KINDS[kind])):
            return
    raise AssertionError("no story runs this hook")


@pytest.mark.parametrize("name", ["next_layer", "tls_clienthello", "tls_start_client", "tls_start_server"])
@in_one_loop
async def test_without_a_decision_nothing_is_sent(scene: Scene, name: str) -> None:
    """S-28: no layer, no TLS: mitmproxy would go on without."""
    seen = await scene.play(whole, CallFault(None, name, lambda: None))
    assert not seen.requests
    assert FIRST not in seen.data
    assert seen.records == ["internal"]


@in_one_loop
async def test_an_upstream_without_proof_gets_nothing(scene: Scene) -> None:
    """S-28: the hook that notes the proof does nothing, so nothing is sent."""
    seen = await scene.play(whole, CallFault(None, "tls_established_server", lambda: None))
    assert not seen.requests
    assert seen.records == ["upstream.tls"]


# What takes for ever ------------------------------------------------------------------------------


async def for_ever(*_: object, **__: object) -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_value_that_never_comes_denies(tmp_path: Path) -> None:
    """S-29: within the limit, and the request is never sent without it."""
    async with Scene.of(tmp_path, InterceptLimits(secrets=0.02)) as scene:
        seen = await scene.play(whole, CallFault(SecretResolver, "resolve", for_ever))
        assert b"egress-denied: secret.unavailable" in seen.data
        assert seen.records == ["secret.unavailable"]
        assert not seen.requests
        assert LAST in (await scene.play(whole)).data


@in_one_loop
async def test_a_dial_that_never_ends_is_given_up(scene: Scene) -> None:
    async def waits(scene: Scene) -> None:
        scene.patch.setattr(scene.stack.engine.dialer, "connect", for_ever)
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene))
            await scene.until(lambda: bool(scene.handler() and scene.handler()._opening))  # type: ignore[union-attr]
            found = scene.handler()
            assert found is not None
            found.tick(scene.stack.clock.monotonic() + InterceptLimits().upstream_open + 1)
            await scene.read(peer)

    seen = await scene.play(waits)
    assert b"egress-denied: upstream.timeout" in seen.data
    assert seen.records == ["upstream.timeout"]


# What ends the process, and the lane --------------------------------------------------------------


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@in_one_loop
async def test_the_end_of_the_process_is_told_on(scene: Scene, error: type[BaseException]) -> None:
    """What is to end the process is not swallowed, and leaves the connection closed and recorded."""

    def ends(*_: object) -> NoReturn:
        raise error(SECRET)

    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene))
            await scene.read(peer, FIRST)
            scene.patch.setattr(Relay, "tick", ends)
            found = scene.handler()
            assert found is not None
            with pytest.raises(error):
                found.tick(0.0)
            scene.release()
            await scene.read(peer)

    seen = await scene.play(story)
    assert LAST not in seen.data
    assert seen.records == ["internal"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_connection_that_cannot_be_taken_apart_has_ended_all_the_same(
    fresh: Scene, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Only its memory is freed later: its record is written, and nothing is added to it."""
    make = KINDS[kind]

    def fails(_: object) -> NoReturn:
        raise make()

    monkeypatch.setattr(Relay, "dissolve", fails)
    seen = await fresh.play(whole)
    assert LAST in seen.data
    assert seen.records == ["rule.allowed"]
    assert "connection.kept" in fresh.log.text
    assert SECRET not in fresh.log.text


async def test_a_lane_that_is_called_off_closes_and_records(fresh: Scene) -> None:
    """The door cancels what it waits for when it stops."""

    async def story(scene: Scene) -> None:
        async with await scene.visit(scene.good) as peer:
            await peer.send(head(scene))
            await scene.read(peer, FIRST)
            for task in scene.stack.door._tasks - scene.others:
                task.cancel()
            scene.release()
            await scene.read(peer)

    seen = await fresh.play(story)
    assert LAST not in seen.data
    assert seen.records == ["proxy.stopping"]
    await fresh.upstream.until(lambda: fresh.upstream.links[0].closed)


async def test_nothing_but_the_destination_is_dialled(fresh: Scene) -> None:
    """Whatever a layer asks for: the connection ends, and nobody is connected to."""

    async def story(scene: Scene) -> None:
        scene.patch.setattr(
            http_layers, "Server", lambda address, sni: Server(address=(LOOPBACK, scene.good), sni=sni)
        )
        await whole(scene)

    connections = len(fresh.upstream.links)
    seen = await fresh.play(story)
    assert seen.records == ["internal"]
    assert not seen.requests
    assert len(fresh.upstream.links) == connections + 1, "the innocent one's own"


async def test_an_exchange_that_could_not_be_recorded_is_told_by_the_next_start(tmp_path: Path) -> None:
    """Its ticket is not given back, so the audit knows that it was under way."""
    async with Scene.of(tmp_path) as scene:
        await scene.play(shut, CallFault(RelayServices, "finish", KINDS["KeyError"]))
        clock = scene.stack.clock
    Sink.open(tmp_path / "audit", KEY, clock=clock).close()
    text = "".join(file.read_text() for file in sorted((tmp_path / "audit").glob("*.jsonl")))
    assert [json.loads(line)["event"] for line in text.splitlines()].count("lost") == 1


def test_what_went_wrong_is_told_without_its_words() -> None:
    """S-28: the place is told, the text is not: it may hold what it was about."""
    with pytest.raises(KeyError) as caught:
        dict[str, str]()[SECRET]
    told = error_location(caught.value)
    assert SECRET not in told
    assert told.startswith("KeyError at test_what_went_wrong_is_told_without_its_words:")
