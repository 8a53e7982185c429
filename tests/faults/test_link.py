"""A link does what it is told: tried on two ends that only send and listen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from tests.faults.faulty_link import FLIP, TWICE, Direction, FaultKind, FaultyLink, LinkFault
from tests.proxy.lab.channel import Channel, End, Reader
from tests.proxy.lab.server import LOOPBACK

SENT = bytes(range(65, 85))
AT = 7


@dataclass
class Ends:
    """A client and a server that greet each other with the same bytes, and what became of it."""

    link: FaultyLink
    got: dict[Direction, bytes] = field(default_factory=dict)
    ended: dict[Direction, End] = field(default_factory=dict)

    async def server(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        await self._greet(Channel(reader, writer), "up")

    async def client(self) -> None:
        await self._greet(await Channel.dial(LOOPBACK, self.link.port), "down")

    async def _greet(self, channel: Channel, towards: Direction) -> None:
        with contextlib.suppress(OSError):
            await channel.send(SENT)
            await channel.finish()
        self.got[towards] = await channel.everything()
        self.ended[towards] = channel.end
        await channel.drop()


@contextlib.asynccontextmanager
async def ends() -> AsyncIterator[Ends]:
    tasks: list[asyncio.Task[None]] = []
    found: Ends

    def protocol() -> asyncio.StreamReaderProtocol:
        reader = Reader()

        def arrived(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.append(asyncio.ensure_future(found.server(reader, writer)))

        return asyncio.StreamReaderProtocol(reader, arrived)

    server = await asyncio.get_running_loop().create_server(protocol, LOOPBACK, 0)
    async with server, FaultyLink(server.sockets[0].getsockname()[1]) as link:
        found = Ends(link)
        yield found
        # A connection can be over for us before the server has looked at it.
        while len(tasks) < link.reached:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.001)
        await asyncio.gather(*tasks)


async def meet(fault: LinkFault | None) -> Ends:
    async with ends() as found:
        found.link.fault = fault
        await found.client()
        while "up" not in found.got:  # noqa: ASYNC110 - the other end tells nobody
            await asyncio.sleep(0.001)
        assert found.link.hits == (fault is not None)
    return found


both_ways = pytest.mark.parametrize(("towards", "back"), [("up", "down"), ("down", "up")])


async def test_without_a_fault_all_passes_and_so_do_the_ends() -> None:
    found = await meet(None)
    assert found.got == {"up": SENT, "down": SENT}
    assert found.ended == {"up": End.CLEAN, "down": End.CLEAN}


@both_ways
@pytest.mark.parametrize("what", [FaultKind.SPLIT, FaultKind.THROTTLE])
async def test_what_is_only_slow_arrives(what: FaultKind, towards: Direction, back: Direction) -> None:
    found = await meet(LinkFault(what, towards, AT))
    assert found.got == {"up": SENT, "down": SENT}


@both_ways
async def test_one_byte_is_another(towards: Direction, back: Direction) -> None:
    found = await meet(LinkFault(FaultKind.CORRUPT, towards, AT))
    assert found.got[towards] == SENT[:AT] + bytes([SENT[AT] ^ FLIP]) + SENT[AT + 1 :]
    assert found.got[back] == SENT


@both_ways
async def test_some_bytes_come_twice(towards: Direction, back: Direction) -> None:
    found = await meet(LinkFault(FaultKind.DUPLICATE, towards, AT))
    assert found.got[towards] == SENT[: AT + TWICE] + SENT[AT:]


@both_ways
async def test_a_half_close_ends_one_direction(towards: Direction, back: Direction) -> None:
    found = await meet(LinkFault(FaultKind.HALF_CLOSE, towards, AT))
    assert found.got == {towards: SENT[:AT], back: SENT}
    assert found.ended[towards] is End.CLEAN


@both_ways
async def test_a_reset_is_seen_as_one(towards: Direction, back: Direction) -> None:
    found = await meet(LinkFault(FaultKind.RESET, towards, AT))
    assert End.RESET in found.ended.values()
    assert len(found.got[towards]) <= AT


@both_ways
async def test_a_cut_ends_both(towards: Direction, back: Direction) -> None:
    found = await meet(LinkFault(FaultKind.CUT, towards, AT))
    assert len(found.got[towards]) <= AT


@both_ways
async def test_a_stall_lets_nothing_more_pass(towards: Direction, back: Direction) -> None:
    found = await meet(LinkFault(FaultKind.STALL, towards, AT))
    assert found.got == {towards: SENT[:AT], back: SENT}


async def test_what_is_open_can_be_let_go_of() -> None:
    async with ends() as found:
        channel = await Channel.dial(LOOPBACK, found.link.port)
        assert await channel.exactly(len(SENT)) == SENT
        before = found.link.is_idle
        await found.link.clear()
        assert (before, found.link.is_idle) == (False, True)
        await channel.drop()


async def test_each_connection_has_its_own_fault() -> None:
    async with ends() as found:
        found.link.faults.append(LinkFault(FaultKind.CUT, "up", 0))
        await found.client()
        await found.client()
        assert found.got["down"] == SENT
        assert found.link.hits == 1
