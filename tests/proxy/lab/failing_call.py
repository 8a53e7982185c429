"""A proxy in which one call fails, once, on one connection; and what must hold whatever that call was.

    async with Scene.of(tmp_path) as scene:
        seen = await scene.play(whole, Fault(Relay, "received", lambda: KeyError(SECRET), nth=2))

A story is what one client does. `play` checks what holds for every story with a fault in it; the test
says which calls fail, and how.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import structlog
from wsproto.utilities import generate_accept_token

from egress.errors import CODES
from egress.handlers.caller import HandlerCaller
from egress.handlers.opening import open_handlers
from egress.proxy.clock import Clock
from egress.proxy.lanes.intercept_handler import InterceptHandler
from egress.proxy.lanes.intercept_limits import InterceptLimits
from egress.proxy.lanes.relay_services import RelayServices
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, RefusedError, at, connect
from tests.proxy.lab.proxy_stack import NAME, SANDBOX, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.server import LOOPBACK
from tests.proxy.lab.upstream_request import UpstreamRequest

SECRET: Final = "sesame-open-please"
FIRST, LAST = b"the-first-part", b"the-last-part"
END_OF_PAGE = b"  }\n}\n"
BEAT_SECONDS = 0.1
MAX_BEATS = 300
"""Beats of the loop after which something hangs: a process that stands still has none."""


class StandstillError(Exception):
    """A story stood still, and not for a fault that was made."""


@dataclass
class CallFault:
    """What goes wrong: the `nth` call of a method, or of a hook where there is no owner."""

    owner: type | None
    name: str
    make: Callable[[], object]
    """Makes what is raised, or what is returned in place of the real thing."""
    nth: int = 1
    calls: int = 0
    fired: bool = False
    was_sent: bool = False
    """A request head had left before it happened."""
    was_over: bool = False
    """An exchange had its record before it happened."""


@dataclass
class SeenCall:
    """What a client got to see."""

    data: bytearray = field(default_factory=bytearray)
    ended: bool = False
    refused: str = ""
    """Why it did not come to a request."""
    records: list[str] = field(default_factory=list)
    """The code of each record of the connection."""
    requests: int = 0
    """How many requests the upstream received."""


class Pulse:
    """Counts time by beats of the loop, and raises `TimeoutError` where something takes too many of them."""

    def __init__(self, state: Callable[[], str]) -> None:
        self._state = state
        self._beats = 0
        self._last = 0.0
        self._longest = 0.0
        self._found = ""

    def __str__(self) -> str:
        return f"after {self._beats} beats, {self._longest:.1f} s at most between two: {self._found}"

    @contextlib.asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        async with asyncio.timeout(None) as bound:
            task = loop.create_task(self._beat(bound))
            try:
                yield
            finally:
                task.cancel()

    async def _beat(self, bound: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        while self._beats < MAX_BEATS:
            await asyncio.sleep(BEAT_SECONDS)
            self._beats += 1
            now = loop.time()
            self._longest, self._last = max(self._longest, now - self._last), now
        self._found = self._state()
        bound.reschedule(loop.time())


class Log(logging.Handler):
    """Everything that is logged, by whatever way, as text."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.escaped: list[str] = []
        """What reached the event loop, where nothing of ours should."""

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))

    def take(self, _logger: object, _method: str, event: Mapping[str, object]) -> Mapping[str, object]:
        self.lines.append(str(event))
        raise structlog.DropEvent

    def escape(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self.escaped.append(str(context))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        root, before = logging.getLogger(), structlog.get_config()
        loop, level = asyncio.get_running_loop(), root.level
        structlog.configure(processors=[self.take])
        root.addHandler(self)
        # As the proxy has it: some libraries print whole heads when they are asked to debug.
        root.setLevel(logging.WARNING)
        loop.set_exception_handler(self.escape)
        try:
            yield
        finally:
            loop.set_exception_handler(None)
            root.setLevel(level)
            root.removeHandler(self)
            structlog.configure(**before)


class Scene:
    """A proxy, an upstream that answers in two parts, one that nobody believes, and one that is away."""

    def __init__(self, stack: ProxyStack, upstream: RawUpstream, ports: tuple[int, int, int]) -> None:
        self.stack = stack
        self.upstream = upstream
        self.good, self.unproven, self.closed = ports
        self.log = Log()
        self.seen = SeenCall()
        self.patch = pytest.MonkeyPatch()
        self.others: set[asyncio.Task[None]] = set()
        """What serves the connections that are not under test."""
        self._innocent: Peer | None = None
        self._fault: CallFault | None = None
        self._fired_first = False

    @classmethod
    @contextlib.asynccontextmanager
    async def of(
        cls, folder: Path, limits: InterceptLimits | None = None, clock: Clock | None = None
    ) -> AsyncIterator[Scene]:
        certs = Certificates()
        (folder / "secret").write_text(SECRET)
        with socket.create_server((LOOPBACK, 0)) as unused:
            closed = int(unused.getsockname()[1])
        good, bad = RawUpstream(certs.good(NAME)), RawUpstream(certs.unknown_ca(NAME))
        async with good as upstream, bad as unproven:
            upstream.handle("/frames", in_tiny_frames)
            upstream.handle("/decoded", compressed)
            for path in ("/story", "/handled"):
                upstream.handle(path, functools.partial(in_two_parts, upstream))
            ports = (upstream.port, unproven.port, closed)
            async with (
                handlers_of(folder) as caller,
                ProxyStack(
                    folder, certs, rules(folder, ports), limits=limits, clock=clock, handlers=caller
                ) as stack,
            ):
                # Nothing happens by itself here: a fault must hit the connection that it is meant for.
                stack._ticks.cancel()
                scene = cls(stack, upstream, ports)
                with scene.log.listening():
                    async with await stack.visit(upstream) as innocent:
                        scene._innocent = innocent
                        yield scene

    # What a story uses

    async def visit(self, port: int, *alpn: str) -> Peer:
        stack = self.stack
        trust = stack.trust(*(alpn or ("http/1.1",)))
        return await connect(at(port), NAME, trust, proxy=stack.proxy)

    def release(self) -> None:
        """Let the upstream send its second part."""
        self._fired_first = self._fault is not None and self._fault.fired
        self.upstream.released.set()

    def handler(self) -> InterceptHandler | None:
        """The handler of the connection under test, while there is one."""
        return next(iter(self._handlers()), None)

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something that shows inside the proxy, which tells nobody."""
        while not happened():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.001)

    async def read(self, peer: Peer, mark: bytes = b"") -> None:
        """Read until the mark has come, or a page of the proxy's; without a mark, to the end."""
        seen = self.seen
        while not seen.ended and not (mark and (mark in seen.data or END_OF_PAGE in seen.data)):
            data = await peer.channel.some()
            seen.ended = not data
            seen.data += data

    # Playing

    async def play(
        self, story: Callable[[Scene], Awaitable[None]], fault: CallFault | None = None
    ) -> SeenCall:
        """Let a client have its story, with a fault in it; check what must hold; return what it saw.

        A story that stands still before its fault has come says nothing about the fault: it is told, with the
        state of every connection, and played once more.
        """
        try:
            return await self.play_once(story, fault)
        except StandstillError as error:
            print(f"played again: {error}", file=sys.__stderr__)
        if fault is not None:
            fault.calls, fault.fired, fault.was_sent, fault.was_over = 0, False, False, False
        return await self.play_once(story, fault)

    async def count(
        self, story: Callable[[Scene], Awaitable[None]], points: Sequence[tuple[type | None, str]]
    ) -> dict[tuple[type | None, str], int]:
        """How often a story makes each of these calls, and runs each of these hooks, without a fault."""
        counted = [CallFault(owner, name, object, nth=0) for owner, name in points]
        with pytest.MonkeyPatch.context() as patch:
            for each in counted:
                self._arm(patch, each)
            await self.play(story)
        return {(each.owner, each.name): each.calls for each in counted}

    async def play_once(
        self, story: Callable[[Scene], Awaitable[None]], fault: CallFault | None = None
    ) -> SeenCall:
        """Play, with `StandstillError` for a story that stands still before its fault."""
        await self.until(self._is_calm)
        self.seen = seen = SeenCall()
        self.log.lines.clear()
        self._fault, self._fired_first = fault, False
        self.upstream.requests.clear()
        self.upstream.released = asyncio.Event()
        before = self.stack.door.connections(SANDBOX)
        self.others = set(self.stack.door._tasks)
        with pytest.MonkeyPatch.context() as patch:
            self._count_records(patch, seen)
            self.patch = patch
            if fault is not None:
                self._arm(patch, fault)
            pulse = Pulse(self._state)
            try:
                async with pulse.limit():
                    try:
                        await story(self)
                    except (OSError, EndedError, RefusedError) as error:
                        seen.refused, seen.ended = type(error).__name__, True
                    self.upstream.released.set()
                    await self.until(lambda: self.stack.door.connections(SANDBOX) == before)
            except TimeoutError:
                if fault is None or not fault.fired:
                    await self._left(before)
                    raise StandstillError(f"{fault}, {seen}, {pulse}") from None
                raise AssertionError(f"it hangs: {fault}, {seen}, {pulse}") from None
        seen.requests = len(self.upstream.requests)
        await self._check(fault)
        return seen

    async def _left(self, before: int) -> None:
        """Wait for the end of a connection whose client has gone."""
        pulse = Pulse(self._state)
        try:
            async with pulse.limit():
                await self.until(lambda: self.stack.door.connections(SANDBOX) == before)
        except TimeoutError:
            raise AssertionError(f"it goes on without its client: {pulse}") from None

    def _state(self) -> str:
        """What each connection waits for."""
        told = []
        for found in self.stack.full._handlers.values():
            relay, turns = found.relay, found._turns
            wires = [
                (wire._reads, wire._is_blocked, wire.transport is not None and wire.transport.is_reading())
                for wire in found._wires.values()
            ]
            ahead = (list(relay._ahead), len(relay._behind), relay._is_due) if relay is not None else ()
            told.append(f"{wires} {ahead} {turns.has_waiting} {turns._spent} {turns._turns._is_asked}")
        return "; ".join(told)

    def _handlers(self) -> list[InterceptHandler]:
        return list(self.stack.full._handlers.values())[1:]

    def _is_calm(self) -> bool:
        """No work of another connection waits for a turn: the fault would hit that one."""
        return not any(found._turns.has_waiting for found in self.stack.full._handlers.values())

    def _count_records(self, patch: pytest.MonkeyPatch, seen: SeenCall) -> None:
        """Note what the log has taken; the log itself folds what comes too often."""
        audit = self.stack.audit

        def exchanged(ticket: object, record: object, facts: object) -> None:
            type(audit).exchange(audit, ticket, record, facts)  # type: ignore[arg-type]
            seen.records.append(record.code)  # type: ignore[attr-defined]

        def refused(value: object) -> None:
            type(audit).refusal(audit, value)  # type: ignore[arg-type]
            seen.records.append(value.code)  # type: ignore[attr-defined]

        patch.setattr(audit, "exchange", exchanged)
        patch.setattr(audit, "refusal", refused)

    def _arm(self, patch: pytest.MonkeyPatch, fault: CallFault) -> None:
        if fault.owner is None:
            hooks = self.stack.full.guard._hooks
            patch.setitem(hooks, fault.name, (self._failing(fault, _one_of(hooks.get(fault.name, ()))),))
            return
        found = vars(fault.owner)[fault.name]
        is_property = isinstance(found, property)
        call = self._failing(fault, found.fget if is_property else found)
        patch.setattr(fault.owner, fault.name, property(call) if is_property else call)

    def _failing(self, fault: CallFault, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            fault.calls += 1
            if fault.calls != fault.nth:
                return real(*arguments, **named)
            fault.fired = True
            fault.was_sent = self._has_sent()
            fault.was_over = bool(self.seen.records)
            made = fault.make()
            if isinstance(made, BaseException):
                raise made
            return made

        return call

    def _has_sent(self) -> bool:
        """Whether the connection under test has sent a request head by now."""
        for handler in self._handlers():
            streams = handler.relay._live if handler.relay is not None else ()
            if handler.services.finished or any(stream.timing.sent for stream in streams):
                return True
        return False

    async def _check(self, fault: CallFault | None) -> None:
        seen = self.seen
        if fault is not None and fault.fired:
            about = f"{fault}: {seen}"
            assert seen.requests <= 1, about
            assert LAST not in seen.data or not self._fired_first, f"sent on after the fault: {about}"
            assert fault.was_sent or not seen.requests, f"sent after the fault: {about}"
            assert seen.ended, f"the connection goes on: {about}"
            assert self._is_recorded(fault), f"not one record: {about}"
        assert SECRET not in self.log.text
        assert SECRET.encode() not in seen.data
        assert not self.log.escaped, self.log.escaped
        assert len(self.stack.full._handlers) == len(self.stack.engine.live) == 1
        await self._innocent_is_served()

    def _is_recorded(self, fault: CallFault) -> bool:
        """One record says how it ended; after one that was there already, a second one may."""
        records = self.seen.records
        if fault.owner is RelayServices and fault.name in {"finish", "monotonic"} and not records:
            # In the midst of recording: the ticket that stays tells the next start of it.
            return fault.was_sent
        if fault.was_over:
            return records[1:] in ([], ["internal"])
        return len(records) == 1 and records[0] in {*CODES, "client.left", "rule.allowed"}

    async def _innocent_is_served(self) -> None:
        """Another connection of the same sandbox, open all the while, still works."""
        assert self._innocent is not None
        try:
            response = await self._innocent.get("/echo", f"{NAME}:{self.good}")
        except EndedError as error:
            raise AssertionError(f"another connection suffered: {error}; {self.log.text}") from None
        assert response.status == 200
        assert response.complete
        self.upstream.requests.clear()


def _one_of(hooks: Sequence[Callable[..., object]]) -> Callable[..., object]:
    def call(*arguments: object) -> None:
        for hook in hooks:
            hook(*arguments)

    return call


HANDLERS = """
import asyncio
from egress.handlers import Allow, Context, Request, handler

@handler
async def passes(request: Request, context: Context) -> Allow:
    await asyncio.sleep(0)
    return Allow()
"""


@contextlib.asynccontextmanager
async def handlers_of(folder: Path) -> AsyncIterator[HandlerCaller]:
    """A handler that allows what it is asked about, behind a step of the loop."""
    path = folder / "handlers.py"
    path.write_text(HANDLERS)
    caller = await open_handlers(path, in_process=True)
    try:
        yield caller
    finally:
        await caller.close()


def rules(folder: Path, ports: tuple[int, int, int]) -> str:
    good, unproven, closed = ports
    places = ", ".join(f'"{NAME}:{port}"' for port in ports)
    return f"""
version: 1
secrets:
  api: {{from: "file:{folder}/secret", hosts: [{places}]}}
hosts:
  {NAME}:
    ports: [{good}, {unproven}, {closed}]
    addresses: [127.0.0.1/32]
    http2: true
    allow:
      - {{id: all, paths: ["/**"], audit: {{query: [page]}}}}
      - {{id: ws, paths: ["/frames"], websocket: true}}
      - {{id: asked, paths: ["/handled"], handler: {{use: passes}}}}
    inject:
      - bearer: api
"""


async def in_tiny_frames(visit: UpstreamRequest) -> None:
    """A switch, more frames than anybody looks at in one turn, and a goodbye: all in one write."""
    visit.over = True
    accept = generate_accept_token((visit.request.header("sec-websocket-key") or "").encode()).decode()
    lines = ["HTTP/1.1 101 Switching Protocols", "upgrade: websocket", "connection: upgrade"]
    head = "\r\n".join([*lines, f"sec-websocket-accept: {accept}", "", ""])
    await visit.channel.send(head.encode() + b"\x82\x01x" * 300 + b"\x88\x02\x03\xe8")


async def compressed(visit: UpstreamRequest) -> None:
    """A few pieces, once it is decoded."""
    await visit.body()
    packed = gzip.compress((os.urandom(4000) + bytes(1 << 18)) * 4, 1)
    await visit.answer(packed, (("content-encoding", "gzip"),))


async def in_two_parts(upstream: RawUpstream, visit: UpstreamRequest) -> None:
    """The first part at once, the second when the upstream is released."""
    await visit.body()
    await visit.begin("200 OK", (("transfer-encoding", "chunked"),))
    await visit.chunk(FIRST)
    await visit.channel.wait_or_end(upstream.released)
    await visit.chunk(LAST)
    await visit.end_chunks()
