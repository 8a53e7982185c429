"""A proxy between two links, and what must hold whatever goes wrong on either of them.

    client - near - proxy - far - upstream

    async with Course.of(tmp_path, tls=True) as course:
        heard = await course.play(course.over_tls, far=Fault(What.CUT, "down", 17))

`play` checks what holds for every fault: nothing hangs, each exchange has one record and each record a code
that is documented, nothing is sent that is not recorded, or bare, and the client is told what was recorded
or nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from egress.audit.reported_facts import ExchangeFacts, RefusalFacts
from egress.errors import CODES
from egress.exchange import ExchangeRecord
from tests.faults.fast_clock import FastClock
from tests.faults.faulty_link import LOSSLESS, FaultKind, FaultyLink, LinkFault
from tests.proxy.lab.certificates import HTTP2, Certificates
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, RefusedError, at, connect, dial
from tests.proxy.lab.failing_call import Log
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.http2 import Http2Upstream
from tests.proxy.lab.proxy_stack import NAME, SANDBOX, ProxyStack
from tests.proxy.lab.raw_upstream import Close, RawUpstream, Say

SECRET: Final = "sesame-open-please"
PATH: Final = "/told"
BODY: Final = b"whole"
ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\n" + BODY
LOG_ONLY: Final = frozenset({"rule.allowed", "host.allowed", "client.left"})
"""Codes that stand in the log alone."""
DOCUMENTED: Final = (LOG_ONLY | CODES.keys()) - {"internal"}
LONG_TIMEOUT: Final = 3600.0
"""Seconds after which whatever is waited for has ended."""
STUCK_SECONDS: Final = 0.05
"""Seconds without a sign of life after which time is let pass, where something may be waited for."""
MAX_SKIPS: Final = 10
"""After so many hours something hangs."""
MAY_WAIT: Final = frozenset({FaultKind.CORRUPT, FaultKind.DUPLICATE, FaultKind.STALL})
"""After these somebody may wait for what does not come; after all others nobody does."""
CERTS: Final = Certificates()

Talk = Callable[[], Awaitable["ClientAnswer"]]


@dataclass(slots=True)
class ClientAnswer:
    """What came back to a client."""

    status: int = 0
    code: str = ""
    """As the proxy gave it; empty where the answer is the upstream's."""
    body: bytes = b""
    is_whole: bool = False
    failure: str = ""
    """Why it did not come to an answer."""

    @classmethod
    def of(cls, response: Response) -> ClientAnswer:
        code = response.header("egress-denied") or ""
        return cls(response.status, code, response.body, response.complete)


WHOLE: Final = ClientAnswer(200, "", BODY, is_whole=True)


@dataclass(frozen=True, slots=True)
class AuditedExchange:
    """A record."""

    kind: str
    connection: str
    request: str
    code: str
    allowed: bool = False
    """Its head was: what was cut later may have been sent."""
    injected: bool = False


@dataclass(frozen=True, slots=True)
class ProtocolPair:
    """What the faults of a story leave of it."""

    is_lossless: bool
    """All arrives, however it arrives."""
    is_heard_as_said: bool
    """What the proxy says to the client arrives as it was said."""


Judge = Callable[[ClientAnswer, Sequence[AuditedExchange], ProtocolPair, str], None]


@dataclass
class FaultyProxy:
    """What stands between a client and its upstream."""

    stack: ProxyStack
    near: FaultyLink
    far: FaultyLink
    upstream: RawUpstream | Http2Upstream
    clock: FastClock
    credential: str
    """What each request has to bring to the upstream; empty for none."""
    log: Log = field(default_factory=Log)
    told: list[AuditedExchange] = field(default_factory=list)
    steady: Peer | None = None
    """A connection that `steadily` keeps."""

    @classmethod
    @contextlib.asynccontextmanager
    async def of(
        cls,
        folder: Path,
        *,
        tls: bool,
        http2: bool = False,
    ) -> AsyncIterator[FaultyProxy]:
        (folder / "secret").write_text(SECRET)
        async with _upstream(tls=tls, http2=http2) as upstream, FaultyLink(upstream.port) as far:
            text = rules(folder, far.port, tls=tls)
            with FastClock() as clock:
                async with (
                    ProxyStack(folder, CERTS, text, clock=clock) as stack,
                    FaultyLink(stack.port) as near,
                ):
                    course = cls(stack, near, far, upstream, clock, f"Bearer {SECRET}" if tls else "")
                    with course.log.listening(), pytest.MonkeyPatch.context() as patch:
                        course._listen(patch)
                        try:
                            yield course
                        finally:
                            await course._let_go()
                    course.check_log()

    @property
    def host(self) -> str:
        return f"{NAME}:{self.far.port}"

    # What clients do

    async def in_clear(self) -> ClientAnswer:
        """One request without TLS, on a connection of its own."""
        async with await dial(at(self.near.port)) as peer:
            return ClientAnswer.of(
                await peer.get(f"http://{self.host}{PATH}", self.host, "connection: close\r\n")
            )

    async def over_tls(self) -> ClientAnswer:
        """The same through a tunnel. Nothing is resumed, on either side."""
        self.stack.full.tls._sessions.forget(SANDBOX)
        async with await self.inside() as peer:
            return ClientAnswer.of(await peer.get(PATH, self.host, "connection: close\r\n"))

    async def steadily(self) -> ClientAnswer:
        """The same on a connection that stays, towards an upstream connection that is new."""
        while not self.far.is_idle:  # noqa: ASYNC110 - a link tells nobody
            await asyncio.sleep(0)
        self.stack.full.tls._sessions.forget(SANDBOX)
        peer = self.steady = self.steady or await self.inside()
        try:
            heard = ClientAnswer.of(await peer.get(PATH, self.host))
        except (OSError, EndedError):
            heard = ClientAnswer()
        if not heard.is_whole:
            await self._let_go()
        return heard

    async def _let_go(self) -> None:
        if self.steady is not None:
            await self.steady.channel.drop()
            self.steady = None

    async def inside(self, *alpn: str) -> Peer:
        """A client whose tunnel stands, and whose handshake is done."""
        trust = self.stack.trust(*(alpn or ("http/1.1",)))
        return await connect(at(self.far.port), NAME, trust, proxy=at(self.near.port))

    # Playing

    async def play(
        self,
        talk: Talk,
        near: LinkFault | None = None,
        far: LinkFault | None = None,
        judge: Judge | None = None,
    ) -> ClientAnswer:
        """Let a client talk, with faults on the way; check what must hold; return what it heard.

        `judge` compares what was heard with what was recorded; without it, there was one request.
        """
        self.told.clear()
        self.upstream.requests.clear()
        self.near.fault, self.far.fault = near, far
        about = f"near {near}, far {far}"
        may_wait = any(fault is not None and fault.what in MAY_WAIT for fault in (near, far))
        async with asyncio.TaskGroup() as group:
            story = group.create_task(self._whole(talk))
            if may_wait:
                group.create_task(self._pass_time(story, about))
        heard = story.result()
        about = f"{about}: {heard}, {self.told}"
        self.check(about)
        is_lossless = all(fault is None or fault.what in LOSSLESS for fault in (near, far))
        is_heard_as_said = near is None or near.towards == "up" or near.what in LOSSLESS
        (judge or one_answer)(heard, self.told, ProtocolPair(is_lossless, is_heard_as_said), about)
        return heard

    async def _whole(self, talk: Talk) -> ClientAnswer:
        heard = await heard_by(talk)
        if self.steady is None:
            await self.near.clear()
            await self.is_quiet()
        return heard

    async def _pass_time(self, story: asyncio.Task[ClientAnswer], about: str) -> None:
        """Let time pass as often as nothing moves.

        It is measured in processor time. All that could move is in this process, and on a busy machine the
        process may stand still for longer than anything in it takes.
        """
        skips, before, since = 0, self._moves(), time.process_time()
        while not story.done():
            await asyncio.sleep(0)
            now, moves = time.process_time(), self._moves()
            if moves != before:
                before, since = moves, now
            elif now - since > STUCK_SECONDS:
                assert skips < MAX_SKIPS, f"it hangs: {about}; {self.told}"
                skips, since = skips + 1, now
                self.clock.skip(LONG_TIMEOUT)

    def _moves(self) -> tuple[int, ...]:
        return self.near.moves, self.far.moves, len(self.told)

    async def is_quiet(self) -> None:
        """Wait until nothing is left of any client, one that waits to be accepted included."""
        stack = self.stack
        turns = stack.engine.turns.of(SANDBOX)
        # Which tells nobody.
        while (  # noqa: ASYNC110
            turns.has_waiting or stack.door.connections(SANDBOX) or stack.engine.live or stack.full._handlers
        ):
            await asyncio.sleep(0)

    # What must hold

    def check(self, about: str) -> None:
        """Of the records since the last story, and of what the upstream got meanwhile."""
        told, requests = self.told, self.upstream.requests
        assert {each.code for each in told} <= DOCUMENTED, about
        exchanges = [each for each in told if each.kind == "exchange"]
        refused = [each.connection for each in told if each.kind == "refusal"]
        assert len({each.request for each in exchanges}) == len(exchanges), f"recorded twice: {about}"
        assert len(set(refused)) == len(refused), f"refused twice: {about}"
        assert not {each.connection for each in exchanges} & set(refused), about
        # One that is harmless may be sent twice, where the connection was lost before anything was answered.
        sent = {each.path for each in requests}
        assert len(sent) <= sum(each.allowed for each in told), f"sent and not recorded: {about}"
        if self.credential:
            assert all(each.headers("authorization") == [self.credential] for each in requests), about
            assert len(sent) <= sum(each.injected for each in told), f"not told as injected: {about}"

    def check_log(self) -> None:
        """The log is a sound chain; nothing broke inside, and nothing was said that must not be."""
        lines = self.stack.lines()
        assert SECRET not in str(lines)
        assert SECRET not in self.log.text
        assert not self.log.escaped, self.log.escaped
        for event in ("connection.failed", "connection.unrecorded", "a connection ended by"):
            assert event not in self.log.text, [line for line in self.log.lines if event in line][:3]

    def _listen(self, patch: pytest.MonkeyPatch) -> None:
        """Note what the log has taken; the log itself folds what comes too often."""
        audit = self.stack.audit

        def exchange(ticket: object, record: ExchangeRecord, facts: ExchangeFacts) -> None:
            type(audit).exchange(audit, ticket, record, facts)  # type: ignore[arg-type]
            allowed, injected = str(record.verdict) in {"allow", "cut"}, bool(record.injected)
            told = AuditedExchange(
                "exchange", facts.way.connection, facts.request, record.code, allowed, injected
            )
            self.told.append(told)

        def refusal(value: RefusalFacts) -> None:
            type(audit).refusal(audit, value)
            self.told.append(AuditedExchange("refusal", value.connection, "", value.code))

        patch.setattr(audit, "exchange", exchange)
        patch.setattr(audit, "refusal", refusal)


def one_answer(heard: ClientAnswer, told: Sequence[AuditedExchange], way: ProtocolPair, about: str) -> None:
    """One request, one record, and both say the same."""
    assert len(told) <= 1, about
    if way.is_lossless:
        assert heard == WHOLE, about
        assert [each.code for each in told] == ["rule.allowed"], about
    if not heard.status or not way.is_heard_as_said:
        return
    if heard.code:
        assert heard.code == told[0].code, about
    else:
        # A cut answer must not be recorded as whole, nor a whole one as cut.
        assert told[0].allowed, about
        assert heard.is_whole is (told[0].code == "rule.allowed"), about


def _upstream(*, tls: bool, http2: bool) -> RawUpstream | Http2Upstream:
    if http2:
        return Http2Upstream(CERTS.good(NAME, alpn=HTTP2))
    upstream = RawUpstream(CERTS.good(NAME) if tls else None)
    upstream.script(PATH, Say(ANSWER), Close())
    return upstream


async def heard_by(talk: Talk) -> ClientAnswer:
    """What a client heard, whatever became of it."""
    try:
        return await talk()
    except RefusedError as error:
        return ClientAnswer.of(error.response)
    except (OSError, EndedError, ValueError, IndexError) as error:
        # What was corrupted may be no HTTP any more.
        return ClientAnswer(failure=type(error).__name__)


def rules(folder: Path, port: int, *, tls: bool) -> str:
    if not tls:
        return f"""
version: 1
hosts:
  {NAME}:
    ports: []
    http: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: all, paths: ["/**"], websocket: true}}
"""
    return f"""
version: 1
secrets:
  api: {{from: "file:{folder}/secret", hosts: ["{NAME}:{port}"]}}
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    http2: true
    allow:
      - {{id: all, paths: ["/**"], websocket: true}}
    inject:
      - bearer: api
"""
