"""The name server on real sockets, asked over UDP and TCP."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from ipaddress import IPv4Address
from typing import Self

import pytest

from egress.proxy.clock import SystemClock
from egress.proxy.dns.server import DnsLimits, DnsServer, Responder
from egress.proxy.event_loop import make_turns
from egress.proxy.ingress.peer_identity import PeerIdentity
from egress.rules.decide.policy import Policy
from egress.shares.turns import TURN_SECONDS, SandboxTurns
from egress.types import HostDecision, Identity
from tests.unit.proxy.dns_messages import AAAA, ANY, HTTPS, NOERROR, NXDOMAIN, SVCB, TXT, A, Told, query, told
from tests.unit.rules.rule_samples import policy

WHO = Identity("box")
DOOR = "10.9.0.1"
RULES = policy('hosts: {api.example.com: {}, "*.static.example.com": {}}')
OBSERVING = policy("mode: observe\nhosts: {closed.example.com: {mode: enforce, allow: []}}")


class Clock(SystemClock):
    """Stands still until it is set."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class Served:
    """A running name server, and what it reported."""

    def __init__(
        self,
        rules: Policy,
        bounds: DnsLimits | None = None,
        clock: Clock | None = None,
        turns: SandboxTurns | None = None,
    ) -> None:
        self.rules = rules
        self.refused: list[tuple[str, str]] = []
        time = clock or SystemClock()
        responder = Responder(IPv4Address(DOOR), lambda: self.rules, time, self._note)
        self.server = DnsServer(responder, time, lambda _: PeerIdentity(WHO), bounds, turns)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp_address = self.udp.getsockname()
        self.tcp_address = self.tcp.getsockname()

    def _note(
        self, identity: Identity, name: str, code: str, decision: HostDecision | None, peer: str
    ) -> None:
        assert (identity, peer) == (WHO, "127.0.0.1")
        self.refused.append((name, code))

    async def __aenter__(self) -> Self:
        await self.server.start(self.udp, self.tcp)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()

    async def ask(self, *messages: bytes) -> list[bytes]:
        """Send datagrams from one socket; return as many answers as there are questions that get one."""
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.setblocking(False)
            await loop.sock_connect(asking, self.udp_address)
            answers = []
            for message in messages:
                await loop.sock_sendall(asking, message)
                answers.append(await loop.sock_recv(asking, 4096))
            return answers

    async def dig(self, name: str, kind: int = A) -> Told:
        (answer,) = await self.ask(query(name, kind))
        return told(answer)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with Served(RULES) as running:
        yield running


# Datagrams --------------------------------------------------------------------------------------


async def test_an_allowed_name_is_the_door(served: Served) -> None:
    reply = await served.dig("api.example.com")
    assert (reply.rcode, reply.addresses) == (NOERROR, (DOOR,))
    assert (await served.dig("x.STATIC.example.com")).addresses == (DOOR,)
    assert served.refused == []


@pytest.mark.parametrize("kind", [AAAA, HTTPS, SVCB, TXT, ANY])
async def test_an_allowed_name_has_no_other_data(served: Served, kind: int) -> None:
    reply = await served.dig("api.example.com", kind)
    assert (reply.rcode, reply.addresses) == (NOERROR, ())


@pytest.mark.parametrize("kind", [A, AAAA, HTTPS, TXT])
async def test_any_other_name_does_not_exist_and_is_reported(served: Served, kind: int) -> None:
    reply = await served.dig("c2VjcmV0.evil.example", kind)
    assert (reply.rcode, reply.addresses) == (NXDOMAIN, ())
    assert served.refused == [("c2vjcmv0.evil.example", "host.unknown")]


async def test_a_reload_counts_from_the_next_question_on(served: Served) -> None:
    assert (await served.dig("new.example.com")).rcode == NXDOMAIN
    served.rules = policy("hosts: {new.example.com: {}}")
    assert (await served.dig("new.example.com")).addresses == (DOOR,)
    assert (await served.dig("api.example.com")).rcode == NXDOMAIN


async def test_every_name_is_answered_while_everything_is_observed() -> None:
    async with Served(OBSERVING) as served:
        assert (await served.dig("anything.example")).addresses == (DOOR,)
        assert (await served.dig("closed.example.com")).rcode == NXDOMAIN
        assert served.refused == [("closed.example.com", "host.closed")]


async def test_scraps_and_responses_get_no_answer_and_are_reported(served: Served) -> None:
    """The question behind them gets the first answer."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        await loop.sock_connect(asking, served.udp_address)
        for message in (b"", b"x", query("api.example.com", flags=0x8180, number=1), query("a.b", number=2)):
            await loop.sock_sendall(asking, message)
        assert told(await loop.sock_recv(asking, 4096)).number == 2
    assert served.refused == [*[("", "protocol.refused")] * 3, ("a.b", "host.unknown")]


async def test_a_datagram_that_is_too_long_is_malformed(served: Served) -> None:
    (answer,) = await served.ask(query("api.example.com", more=bytes(2000)))
    assert told(answer).rcode == 1
    assert served.refused == [("", "request.malformed")]


async def test_a_flood_waits_in_the_kernel_until_there_is_something_to_spend_again() -> None:
    """With a clock that stands still nothing comes back, however long the loop runs."""
    clock = Clock()
    async with Served(RULES, DnsLimits(per_second=1000, burst=5), clock) as served:
        asked = [query("api.example.com", number=number) for number in range(5)]
        assert len(await served.ask(*asked)) == 5
        late = asyncio.create_task(served.ask(query("api.example.com")))
        while served.server._pause is None:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0)
        first = served.server._pause
        while served.server._pause is first:  # noqa: ASYNC110 - same
            await asyncio.sleep(0)
        assert not late.done()
        clock.seconds += 1
        assert len(await late) == 1


@pytest.mark.parametrize("has_backlog", [False, True])
async def test_questions_are_answered_in_turns_of_the_sandbox(*, has_backlog: bool) -> None:
    """A flood of questions leaves the loop to others; other work of the sandbox leaves some to questions."""
    clock = Clock()
    turns = make_turns(clock.monotonic)
    turns.of("other")
    sandbox = turns.of("box")
    rounds: list[int] = []
    is_over = False

    def toil() -> None:
        clock.seconds += TURN_SECONDS
        if not is_over:
            sandbox.wait(toil)

    async with Served(RULES, clock=clock, turns=sandbox) as served:
        reply = served.server._responder.reply

        def dear(data: bytes, who: PeerIdentity, peer: str = "") -> bytes | None:
            clock.seconds += TURN_SECONDS
            rounds.append(turns.round)
            return reply(data, who, peer)

        served.server._responder.reply = dear  # type: ignore[method-assign]
        if has_backlog:
            toil()
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.setblocking(False)
            await loop.sock_connect(asking, served.udp_address)
            for number in range(10):
                await loop.sock_sendall(asking, query("api.example.com", number=number))
            for _ in range(10):
                await loop.sock_recv(asking, 4096)
    is_over = True
    assert len(set(rounds)) == 10


async def test_nothing_is_answered_after_the_close(served: Served) -> None:
    await served.server.close()
    await served.server.close()
    with pytest.raises(ConnectionRefusedError):
        await served.ask(query("api.example.com"))


# Streams ----------------------------------------------------------------------------------------


def framed(message: bytes) -> bytes:
    return struct.pack(">H", len(message)) + message


async def converse(served: Served, data: bytes) -> list[Told]:
    """Send it all on one connection; return every answer until the server closes, or all are answered."""
    reader, writer = await asyncio.open_connection(*served.tcp_address)
    writer.write(data)
    writer.write_eof()
    rest = await reader.read()
    writer.close()
    found = []
    while rest:
        (length,) = struct.unpack_from(">H", rest)
        found.append(told(rest[2 : 2 + length]))
        rest = rest[2 + length :]
    return found


async def test_questions_on_one_connection_are_answered_in_order(served: Served) -> None:
    asked = [
        query("api.example.com", number=1),
        query("evil.example", number=2),
        query("a.b", AAAA, number=3),
    ]
    found = await converse(served, b"".join(map(framed, asked)))
    assert [(reply.number, reply.rcode) for reply in found] == [(1, NOERROR), (2, NXDOMAIN), (3, NXDOMAIN)]


@pytest.mark.parametrize("kept", [1, 2, 20])
async def test_half_a_message_is_dropped_and_reported(served: Served, kept: int) -> None:
    asked = framed(query("api.example.com")) + framed(query("api.example.com"))[:kept]
    assert len(await converse(served, asked)) == 1
    assert served.refused == [("", "request.malformed")]


@pytest.mark.parametrize("words", [struct.pack(">H", 1233) + bytes(1233), b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_long_message_ends_the_connection_and_is_reported(served: Served, words: bytes) -> None:
    """What is no DNS mostly begins with such a length."""
    assert await converse(served, words) == []
    assert served.refused == [("", "request.malformed")]


async def test_a_message_that_gets_no_answer_ends_the_connection(served: Served) -> None:
    assert await converse(served, framed(query("a.b", flags=0x8180)) + framed(query("a.b"))) == []
    assert served.refused == [("", "protocol.refused")]


async def test_whoever_leaves_without_a_word_is_not_reported(served: Served) -> None:
    assert await converse(served, b"") == []
    assert len(await converse(served, framed(query("api.example.com")))) == 1
    assert served.refused == []


async def test_a_connection_is_good_for_so_many_questions() -> None:
    async with Served(RULES, DnsLimits(questions=3)) as served:
        assert len(await converse(served, framed(query("api.example.com")) * 9)) == 3


async def test_a_silent_connection_is_closed_and_reported() -> None:
    async with Served(RULES, DnsLimits(patience=0.05)) as served:
        for said in (b"", b"\x00", b"\x00\x14", b"\x00\x14half"):
            reader, writer = await asyncio.open_connection(*served.tcp_address)
            writer.write(said)
            assert await reader.read() == b""
            writer.close()
        assert served.refused == [("", "request.timeout")] * 4


async def test_a_connection_that_is_kept_too_long_after_an_answer_is_closed_without_a_word() -> None:
    async with Served(RULES, DnsLimits(patience=1)) as served:
        reader, writer = await asyncio.open_connection(*served.tcp_address)
        writer.write(framed(query("api.example.com")))
        assert await reader.read()
        writer.close()
        assert served.refused == []


async def test_one_connection_too_many_is_closed_at_once_and_reported() -> None:
    async with Served(RULES, DnsLimits(connections=1)) as served:
        first, writing = await asyncio.open_connection(*served.tcp_address)
        writing.write(framed(query("api.example.com")))
        await first.readexactly(2)
        second, other = await asyncio.open_connection(*served.tcp_address)
        assert await second.read() == b""
        other.close()
        assert served.refused == [("", "limit.connections")]
        writing.write(framed(query("api.example.com")))
        assert await first.readexactly(2)
        writing.close()


async def test_the_close_ends_connections_too(served: Served) -> None:
    reader, writer = await asyncio.open_connection(*served.tcp_address)
    writer.write(framed(query("api.example.com")))
    await reader.readexactly(2)
    await served.server.close()
    await reader.read()
    writer.close()
