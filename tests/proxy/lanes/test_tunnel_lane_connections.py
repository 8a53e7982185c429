"""The bytes-only lane on loopback: what it carries, what it refuses, how it ends, what it tells."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Self

import pytest
import trustme

from egress.address_check import NO_OWN_NETWORKS
from egress.errors import CODES
from egress.exchange import Destination
from egress.proxy.clock import SystemClock
from egress.proxy.lanes.connection import AdmittedConnection, LiveConnections
from egress.proxy.lanes.dial import Dialer
from egress.proxy.lanes.tunnel_lane import (
    TunnelCarrier,
    TunnelConnection,
    TunnelEnd,
    TunnelTimeouts,
    refusal_code,
)
from egress.rules.decide.decision import decide_host
from egress.rules.decide.policy import Policy
from egress.tls.client_hello import ClientHello, HelloReader
from egress.types import Identity
from tests.unit.rules.rule_samples import NOW, policy

HOST = "pinned.example.com"
WHO = Identity("box")
CLOCK = SystemClock()
LOOPBACK = '["127.0.0.0/8"]'


def rules(port: int, entry: str = f"intercept: never, addresses: {LOOPBACK}") -> Policy:
    return policy(f"hosts: {{{HOST}: {{ports: [{port}], {entry}}}}}")


class Names:
    def __init__(self) -> None:
        self.answer: tuple[str, ...] = ("127.0.0.1",)
        self.asked: list[str] = []
        self.hold = asyncio.Event()
        self.hold.set()

    async def resolve(self, host: str, owner: str = "") -> tuple[str, ...]:
        self.asked.append(f"{host} for {owner}")
        await self.hold.wait()
        return self.answer


class Upstream:
    """What listens behind the lane; by default it echoes."""

    def __init__(self) -> None:
        self.visits = 0
        self.behave: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = echo

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        await self.behave(reader, writer)
        writer.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return


class Lab:
    """A door that takes every client for `HOST`, the lane, and an upstream."""

    def __init__(self) -> None:
        self.names = Names()
        self.upstream = Upstream()
        self.ends: asyncio.Queue[TunnelEnd] = asyncio.Queue()
        self.live = LiveConnections()
        self.patience = TunnelTimeouts()
        self.hello: ClientHello | None = ClientHello(HOST)
        self.closed: asyncio.Queue[bool] = asyncio.Queue()
        self.ahead = 5
        self.entry = f"intercept: never, addresses: {LOOPBACK}"
        self.tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._upstream = await asyncio.start_server(self.upstream, "127.0.0.1", 0)
        self.port = self._upstream.sockets[0].getsockname()[1]
        # Made the plain way, so that nobody has turned delays off yet.
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self._door = await asyncio.start_server(self._arrived, sock=listener)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._upstream.close()
        self._door.close()
        for carried in self.live:
            carried.close("proxy.stopping")

    def admitted(self) -> AdmittedConnection:
        found = rules(self.port, self.entry)
        to = Destination("https", HOST, self.port)
        decision = decide_host(found, WHO, HOST, self.port, NOW)
        return AdmittedConnection(
            "1", WHO, "l", "connect", to, decision, found, self.hello, CLOCK.monotonic()
        )

    async def _arrived(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ahead = await reader.readexactly(self.ahead) if self.ahead else b""
        dialer = Dialer(self.names, lambda: NO_OWN_NETWORKS, CLOCK)
        tunnel = TunnelCarrier(dialer, CLOCK, self.live, self.ends.put_nowait, self.patience)
        self.tasks.append(asyncio.current_task())  # type: ignore[arg-type]
        try:
            await tunnel.carry(self.admitted(), reader, writer, ahead)
        finally:
            await writer.wait_closed()
            self.closed.put_nowait(True)

    async def enter(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self._door.sockets[0].getsockname())

    async def carried(self) -> TunnelConnection:
        """The connection that is being carried, as soon as there is one."""
        while not len(self.live):  # noqa: ASYNC110 - lanes tell nobody when they begin
            await asyncio.sleep(0.001)
        (found,) = self.live
        assert isinstance(found, TunnelConnection)
        return found


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    async with Lab() as found:
        yield found


# Carrying ---------------------------------------------------------------------------------------


async def test_carries_bytes_and_tells_once(lab: Lab) -> None:
    reader, writer = await lab.enter()
    writer.write(b"hello, world")
    assert await reader.readexactly(12) == b"hello, world"
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    end = await lab.ends.get()
    assert (end.code, end.address, end.up, end.down, end.note) == ("", "127.0.0.1", 12, 12, "")
    assert end.by == "client"
    assert end.admitted.destination.host == HOST
    assert end.total_us >= end.resolve_us + end.connect_us >= 0
    assert lab.names.asked == [f"{HOST} for box"]
    assert await lab.closed.get()
    assert lab.ends.empty()
    assert len(lab.live) == 0


async def test_what_the_door_has_not_read_is_sent_behind_what_it_has(lab: Lab) -> None:
    """Bytes that arrive while the name is looked up lie in the stream; more than fits stays in the kernel."""
    lab.names.hold.clear()
    reader, writer = await lab.enter()
    sent = bytes(range(256)) * 4000
    writer.write(sent)
    await lab.carried()
    await asyncio.sleep(0.02)
    lab.names.hold.set()
    assert await reader.readexactly(len(sent)) == sent
    writer.close()
    assert (await lab.ends.get()).up == len(sent)


async def test_a_client_that_has_said_everything_gets_its_answer(lab: Lab) -> None:
    """The end of the client came before the lane took over."""
    lab.names.hold.clear()
    reader, writer = await lab.enter()
    writer.write(b"question")
    writer.write_eof()
    await lab.carried()
    await asyncio.sleep(0.02)
    lab.names.hold.set()
    assert await reader.read() == b"question"
    writer.close()
    assert (await lab.ends.get()).code == ""


async def test_an_upstream_that_speaks_first_is_heard(lab: Lab) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"welcome")
        await echo(reader, writer)

    lab.upstream.behave = greet
    reader, writer = await lab.enter()
    writer.write(b"hello")
    assert await reader.readexactly(12) == b"welcomehello"
    writer.close()
    await lab.ends.get()


async def test_an_upstream_that_closes_ends_it(lab: Lab) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(5)
        writer.write(b"bye")

    lab.upstream.behave = leave
    reader, writer = await lab.enter()
    writer.write(b"hello")
    assert await reader.read() == b"bye"
    writer.close()
    end = await lab.ends.get()
    assert (end.code, end.by, end.down) == ("", "upstream", 3)


async def test_a_real_handshake_goes_through(lab: Lab) -> None:
    """The certificate of the upstream reaches the client: nobody stands between."""
    authority = trustme.CA()
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert(HOST).configure_cert(serving)
    authority.configure_trust(trusting)
    secure = await asyncio.start_server(lab.upstream, "127.0.0.1", 0, ssl=serving)
    lab.port = secure.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection(
        *lab._door.sockets[0].getsockname(), ssl=trusting, server_hostname=HOST
    )
    writer.write(b"secret" * 50_000)
    assert await reader.readexactly(300_000) == b"secret" * 50_000
    writer.close()
    await writer.wait_closed()
    assert (await lab.ends.get()).code == ""
    secure.close()


# Refusing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        (ClientHello(HOST), ""),
        (ClientHello(HOST, ("h2",), (0x0304,)), ""),
        (ClientHello(HOST, encrypted=True), "request.mismatch"),
        (ClientHello("evil.example"), "request.mismatch"),
        (ClientHello(f"x.{HOST}"), "request.mismatch"),
        (ClientHello(""), "request.mismatch"),
        (None, "protocol.refused"),
    ],
)
def test_only_a_hello_that_names_the_destination_in_clear_is_carried(
    hello: ClientHello | None, code: str
) -> None:
    lab = Lab.__new__(Lab)
    lab.port, lab.hello, lab.entry = 443, hello, f"intercept: never, addresses: {LOOPBACK}"
    assert refusal_code(lab.admitted()) == code
    assert code in {"", *CODES}


def test_an_address_has_no_name() -> None:
    lab = Lab.__new__(Lab)
    lab.port, lab.hello, lab.entry = 443, ClientHello(""), f"intercept: never, addresses: {LOOPBACK}"
    admitted = replace(lab.admitted(), destination=Destination("https", "10.2.0.7", 443))
    assert refusal_code(admitted) == ""
    assert refusal_code(replace(admitted, hello=ClientHello(HOST))) == "request.mismatch"


async def test_what_is_refused_is_not_even_resolved(lab: Lab) -> None:
    lab.hello = ClientHello("evil.example")
    reader, writer = await lab.enter()
    writer.write(b"hello")
    assert await reader.read() == b"\x15\x03\x03\x00\x02\x02\x70"
    writer.close()
    end = await lab.ends.get()
    assert (end.code, end.by, end.up, end.address) == ("request.mismatch", "proxy", 0, "")
    assert lab.names.asked == []
    assert lab.upstream.visits == 0
    assert await lab.closed.get()


async def test_a_client_is_told_by_an_alert_it_understands(lab: Lab) -> None:
    lab.hello = replace(ClientHello(HOST), encrypted=True)
    lab.ahead = 5
    with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
        await asyncio.open_connection(
            *lab._door.sockets[0].getsockname(), ssl=ssl.create_default_context(), server_hostname=HOST
        )
    assert (await lab.ends.get()).code == "request.mismatch"


async def test_an_address_that_is_refused_ends_it(lab: Lab) -> None:
    lab.names.answer = ("127.0.0.1", "10.0.0.7")
    reader, writer = await lab.enter()
    writer.write(b"hello")
    assert await reader.read() == b"\x15\x03\x03\x00\x02\x02\x31"
    writer.close()
    end = await lab.ends.get()
    assert (end.code, end.by, end.address) == ("address.refused", "proxy", "10.0.0.7")
    assert "10.0.0.7" in end.note
    assert lab.upstream.visits == 0


async def test_an_upstream_that_nobody_reaches_ends_it(lab: Lab) -> None:
    lab.names.answer = ("127.0.0.9",)
    reader, writer = await lab.enter()
    writer.write(b"hello")
    assert await reader.read() == b"\x15\x03\x03\x00\x02\x02\x50"
    writer.close()
    assert (await lab.ends.get()).code == "upstream.unreachable"


async def test_a_dial_that_takes_too_long_ends_it(lab: Lab) -> None:
    lab.names.hold.clear()
    lab.patience = TunnelTimeouts(connect=0.01)
    reader, writer = await lab.enter()
    writer.write(b"hello")
    await reader.read()
    writer.close()
    assert (await lab.ends.get()).code == "upstream.timeout"


# Ending -----------------------------------------------------------------------------------------


async def test_silence_ends_it(lab: Lab) -> None:
    lab.patience = TunnelTimeouts(idle=0.04)
    reader, writer = await lab.enter()
    writer.write(b"hello")
    await reader.read()
    writer.close()
    end = await lab.ends.get()
    assert (end.code, end.by) == ("", "idle")


async def test_a_close_ends_it_now_and_gives_the_reason(lab: Lab) -> None:
    reader, writer = await lab.enter()
    writer.write(b"hello")
    await reader.readexactly(5)
    (await lab.carried()).close("access.withdrawn")
    end = await lab.ends.get()
    assert (end.code, end.by, end.up, end.down) == ("access.withdrawn", "proxy", 5, 5)
    assert await closed_for(reader)
    writer.close()


async def test_a_close_ends_the_dial_too(lab: Lab) -> None:
    lab.names.hold.clear()
    _, writer = await lab.enter()
    writer.write(b"hello")
    carried = await lab.carried()
    while not lab.names.asked:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    carried.close("access.withdrawn")
    carried.close("proxy.stopping")
    end = await lab.ends.get()
    assert (end.code, end.address) == ("access.withdrawn", "")
    assert lab.upstream.visits == 0
    writer.close()


async def test_a_cancelled_lane_closes_and_tells(lab: Lab) -> None:
    reader, writer = await lab.enter()
    writer.write(b"hello")
    await reader.readexactly(5)
    lab.tasks[0].cancel()
    assert (await lab.ends.get()).code == "proxy.stopping"
    assert await closed_for(reader)
    writer.close()


async def test_a_client_that_is_gone_before_the_upstream_answers_is_told(lab: Lab) -> None:
    lab.names.hold.clear()
    _, writer = await lab.enter()
    writer.write(b"hello")
    await lab.carried()
    writer.transport.abort()
    await asyncio.sleep(0.02)
    lab.names.hold.set()
    end = await lab.ends.get()
    assert (end.code, end.by) == ("", "client")
    assert await lab.closed.get()


async def test_a_fault_of_ours_closes_and_tells(lab: Lab) -> None:
    async def fail(host: str, owner: str = "") -> tuple[str, ...]:
        raise LookupError

    lab.names.resolve = fail  # type: ignore[method-assign]
    reader, writer = await lab.enter()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    writer.write(b"hello")
    assert await reader.read() == b""
    writer.close()
    assert (await lab.ends.get()).code == "internal"


# Rules that change ------------------------------------------------------------------------------

KEPT = f"intercept: never, addresses: {LOOPBACK}"


@pytest.mark.parametrize(
    ("entry", "stays"),
    [
        (KEPT, True),
        (f"{KEPT}, expires: 2030-01-01", True),
        ("intercept: never, addresses: [127.0.0.1/32]", True),
        (f"{KEPT}, expires: 2020-01-01", False),
        ("intercept: never", False),
        ("intercept: never, addresses: [10.0.0.0/8]", False),
        (f"addresses: {LOOPBACK}", False),
        (f"addresses: {LOOPBACK}, allow: []", False),
    ],
)
async def test_a_new_policy_ends_what_it_would_not_let_begin(entry: str, stays: bool, lab: Lab) -> None:
    """S-80: withdrawn, expired, to be intercepted, or at an address that is not open any more."""
    reader, writer = await lab.enter()
    writer.write(b"hello")
    await reader.readexactly(5)
    carried = await lab.carried()
    carried.recheck(rules(lab.port, entry), NOW)
    if stays:
        writer.write(b"again")
        assert await reader.readexactly(5) == b"again"
        writer.close()
        assert (await lab.ends.get()).code == ""
    else:
        assert (await lab.ends.get()).code == "access.withdrawn"
        assert await closed_for(reader)
        writer.close()


async def test_another_port_in_the_rules_ends_it(lab: Lab) -> None:
    reader, writer = await lab.enter()
    writer.write(b"hello")
    await reader.readexactly(5)
    (await lab.carried()).recheck(rules(443), NOW)
    assert (await lab.ends.get()).code == "access.withdrawn"
    writer.close()


async def test_a_new_policy_counts_while_the_name_is_looked_up(lab: Lab) -> None:
    lab.names.hold.clear()
    _, writer = await lab.enter()
    writer.write(b"hello")
    carried = await lab.carried()
    carried.recheck(rules(lab.port), NOW)
    carried.recheck(rules(443), NOW)
    assert (await lab.ends.get()).code == "access.withdrawn"
    assert lab.upstream.visits == 0
    writer.close()


@pytest.mark.parametrize(("network", "code"), [("127.0.0.0/16", ""), ("10.9.9.9/32", "access.withdrawn")])
async def test_an_address_that_is_taken_back_while_it_is_dialled_gets_nothing(
    lab: Lab, network: str, code: str
) -> None:
    """It was not known yet when the rules changed."""
    lab.names.hold.clear()
    reader, writer = await lab.enter()
    writer.write(b"hello")
    carried = await lab.carried()
    carried.recheck(rules(lab.port, f'intercept: never, addresses: ["{network}"]'), NOW)
    assert len(lab.live) == 1
    lab.names.hold.set()
    if not code:
        assert await reader.readexactly(5) == b"hello"
    writer.close()
    end = await lab.ends.get()
    assert (end.code, end.address, end.up) == (code, "127.0.0.1", 0 if code else 5)


async def test_draining_lets_it_go_on(lab: Lab) -> None:
    reader, writer = await lab.enter()
    writer.write(b"hello")
    await reader.readexactly(5)
    carried = await lab.carried()
    carried.drain()
    assert carried.secrets == frozenset()
    writer.write(b"again")
    assert await reader.readexactly(5) == b"again"
    writer.close()
    assert (await lab.ends.get()).code == ""


# Small things -----------------------------------------------------------------------------------


async def test_nothing_waits_to_be_sent_together_with_more(lab: Lab) -> None:
    reader, writer = await lab.enter()
    writer.write(b"hello")
    await reader.readexactly(5)
    carried = await lab.carried()
    for side in (carried._pipe.client, carried._pipe.upstream):
        sock = side.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    writer.close()
    await lab.ends.get()


async def test_a_hello_of_a_real_client_is_what_the_lane_expects(lab: Lab) -> None:
    """The reader's and the lane's idea of a name are the same."""
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(
            ssl.MemoryBIO(), outgoing, server_hostname=HOST.upper()
        ).do_handshake()
    lab.hello = HelloReader().feed(outgoing.read())
    assert refusal_code(lab.admitted()) == ""


async def closed_for(reader: asyncio.StreamReader) -> bool:
    """Whether nothing more comes, whatever the way it was closed."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True
