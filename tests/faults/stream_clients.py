"""What clients of HTTP/2 and WebSocket do, and what must hold of it whatever goes wrong on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from wsproto.events import BytesMessage, CloseConnection, TextMessage

from tests.conftest import IS_NIGHTLY
from tests.faults.faulty_link import LOSSLESS, Direction, FaultKind, LinkFault
from tests.faults.faulty_proxy import AuditedExchange, ClientAnswer, FaultyProxy, ProtocolPair
from tests.faults.seeded_random import SeededRandom
from tests.proxy.lab.client import at, connect
from tests.proxy.lab.frames import Stream
from tests.proxy.lab.http2 import Http2Client
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.lab.websocket import Socket, open_websocket

EACH, FEW = (12, 4) if IS_NIGHTLY else (6, 2)
"""Bytes of each direction at which a fault comes about; few where all arrives, which takes long."""


class Story(Protocol):
    async def talk(self) -> ClientAnswer: ...

    def judge(
        self, heard: ClientAnswer, told: Sequence[AuditedExchange], way: ProtocolPair, about: str
    ) -> None: ...


async def play_sample(
    course: FaultyProxy, story: Story, chance: SeededRandom, what: FaultKind, side: str, towards: Direction
) -> None:
    """The story without a fault, with one at a sample of bytes, and without one again."""
    link = course.near if side == "near" else course.far
    await course.play(story.talk, judge=story.judge)
    assert link.last is not None
    count = FEW if what in LOSSLESS else EACH
    for place in chance.places(link.last.passed[towards], count):
        fault = LinkFault(what, towards, place)
        near, far = (fault, None) if side == "near" else (None, fault)
        await course.play(story.talk, near, far, story.judge)
    assert link.hits >= count // 2, "the faults came about"
    await course.play(story.talk, judge=story.judge)


class Streams:
    """Three requests at once over one HTTP/2 connection, one of them with a body."""

    COUNT = 3

    def __init__(self, course: FaultyProxy) -> None:
        self.course = course
        self.streams: list[Stream] = []

    async def talk(self) -> ClientAnswer:
        host = self.course.host
        self.streams = []
        peer = await self.course.inside("h2")
        try:
            async with Http2Client(peer.channel) as client:
                self.streams = [
                    await client.start_with(fields(host, "/small"), end=True),
                    await client.start_with(fields(host, "/bytes?n=6000"), end=True),
                    await client.start(host, "/sink", method="POST"),
                ]
                await client.conversation.data(self.streams[-1], b"b" * 3000, end=True)
                await asyncio.gather(*map(client.conversation.whole, self.streams))
        finally:
            await peer.channel.drop()
        return ClientAnswer(200, is_whole=all(is_whole(stream) for stream in self.streams))

    def judge(
        self, heard: ClientAnswer, told: Sequence[AuditedExchange], way: ProtocolPair, about: str
    ) -> None:
        assert len(told) <= self.COUNT, about
        codes = [each.code for each in told]
        if way.is_lossless:
            assert heard.is_whole, about
            assert codes == ["rule.allowed"] * self.COUNT, about
        if way.is_heard_as_said:
            whole = sum(map(is_whole, self.streams))
            assert whole <= codes.count("rule.allowed"), about
            pages = {stream.header("egress-denied") for stream in self.streams} - {None}
            assert pages <= set(codes), about


def fields(host: str, path: str) -> tuple[tuple[str, str], ...]:
    return ((":method", "GET"), (":scheme", "https"), (":authority", host), (":path", path))


def is_whole(stream: Stream) -> bool:
    return stream.status == 200 and stream.complete and stream.reset is None


class Messages:
    """A WebSocket that says three things, hears them again, and says goodbye."""

    SAID = (TextMessage("some text"), BytesMessage(bytes(range(256)) * 6), TextMessage("more"))

    def __init__(self, course: FaultyProxy, *, tls: bool) -> None:
        self.course = course
        self.tls = tls

    async def talk(self) -> ClientAnswer:
        course = self.course
        trust = course.stack.trust("http/1.1") if self.tls else None
        address, proxy = at(course.far.port), at(course.near.port)
        async with await connect(address, NAME, trust, proxy=proxy) as peer:
            socket = await open_websocket(peer.channel, course.host)
            assert socket.response is not None
            heard = ClientAnswer.of(socket.response)
            if heard.status == 101:
                heard.is_whole = await self._converse(socket)
            return heard

    async def _converse(self, socket: Socket) -> bool:
        for message in self.SAID:
            await socket.send(message)
            if await socket.receive() != message:
                return False
        await socket.send(CloseConnection(1000))
        await socket.receive()
        return socket.closed is not None and socket.closed.code == 1000

    def judge(
        self, heard: ClientAnswer, told: Sequence[AuditedExchange], way: ProtocolPair, about: str
    ) -> None:
        assert len(told) <= 1, about
        codes = [each.code for each in told]
        if way.is_lossless:
            assert heard.is_whole, about
            assert codes == ["rule.allowed"], about
        if heard.code and way.is_heard_as_said:
            assert codes == [heard.code], about
