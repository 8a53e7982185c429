"""The door on real sockets: listeners, places, ends."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import pytest

from egress.errors import UsageError
from egress.proxy.ingress.limits import IngressLimits
from egress.proxy.ingress.listener import Listener, listen, password_digest
from egress.shares.pool import Capacity, Resource, SharePool
from tests.unit.proxy.hellos import real
from tests.unit.proxy.ingress_fixture import (
    CARRIED,
    QUICK,
    FakeEngine,
    IngressFixture,
    code,
    connect,
    get,
    status,
    until,
)

API = "api.example.com"
TUNNEL = connect(f"{API}:443")
NEVER = IngressLimits(first_byte=3600, head_time=3600, hello_time=3600, linger_time=0.2)


@pytest.fixture(name="step")
async def doorstep() -> AsyncIterator[IngressFixture]:
    step = IngressFixture(bounds=NEVER)
    yield step
    step.full.held = None
    await step.door.close()
    step.close()


def loopback(sandbox: str = "box", host: str = "127.0.0.1") -> Listener:
    return Listener(f"{sandbox}-proxy", "proxy", sandbox, listen(host, 0), "owner-uid")


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def call(address: tuple[str, int], data: bytes = b"") -> Streams:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    return reader, writer


async def ask(address: tuple[str, int], data: bytes) -> bytes:
    reader, writer = await call(address, data)
    said = await reader.read()
    writer.close()
    return said


async def counted(step: IngressFixture, connections: int, sandbox: str = "box") -> None:
    """Wait until so many connections of a sandbox are open."""
    await until(lambda: step.door.connections(sandbox) == connections)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_serves_its_owner_on_loopback(step: IngressFixture, host: str) -> None:
    address = await step.door.open(loopback(host=host))
    answer = await ask(address, TUNNEL + real(API))
    assert answer.endswith(CARRIED + b"full")
    assert step.full.arrivals[0].listener == "box-proxy"


async def test_another_user_is_refused(step: IngressFixture) -> None:
    """S-78, by the uid of the listener: the tests have but one user."""
    address = await step.door.open(replace(loopback(), owner=os.geteuid() + 1))
    assert code(await ask(address, TUNNEL + real(API))) == "proxy.identity"
    assert step.codes == ["proxy.identity"]
    assert step.arrivals == []


async def test_clients_that_share_a_listener_are_told_apart_by_their_addresses(step: IngressFixture) -> None:
    address = await step.door.open(replace(loopback(), authentication="network", is_shared=True))
    await ask(address, TUNNEL + real(API))
    await ask(address, connect("evil.example:443"))
    assert [each.peer for each in step.full.arrivals] == ["127.0.0.1"]
    assert [each.peer for each in step.house.audit.refusals] == ["127.0.0.1"]


async def test_a_client_with_a_listener_of_its_own_is_not_named_by_address(step: IngressFixture) -> None:
    address = await step.door.open(loopback())
    await ask(address, TUNNEL + real(API))
    await ask(address, connect("evil.example:443"))
    assert [each.peer for each in step.full.arrivals] == [""]
    assert [each.peer for each in step.house.audit.refusals] == [""]


async def test_a_refused_client_reads_the_whole_answer(step: IngressFixture) -> None:
    """Also one that sends more than is read of it."""
    address = await step.door.open(loopback())
    answer = await ask(address, connect("evil.example:443") + b"x" * 50_000)
    assert (status(answer), code(answer)) == (403, "host.unknown")
    assert answer.endswith(b"}\n")


async def test_connections_send_at_once(step: IngressFixture) -> None:
    """Nagle's algorithm is off on accepted connections."""
    options: list[int] = []

    async def look(_a: object, _r: object, writer: asyncio.StreamWriter, _b: bytes) -> None:
        sock: socket.socket = writer.get_extra_info("socket")
        options.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    step.door._passage._lanes = replace(step.door._passage._lanes, full=look)
    await ask(await step.door.open(loopback()), TUNNEL + real(API))
    assert options == [1]


async def test_a_listener_of_nobody_is_refused(step: IngressFixture) -> None:
    listener = loopback("nobody")
    with pytest.raises(UsageError, match="no sandbox"):
        await step.door.open(listener)
    listener.sock.close()


async def test_a_listener_that_cannot_ask_is_refused(step: IngressFixture) -> None:
    listener = replace(
        loopback(), kind="transparent", authentication="password", password=password_digest("x")
    )
    with pytest.raises(UsageError):
        await step.door.open(listener)
    listener.sock.close()


async def test_one_listener_is_closed_and_what_is_inside_a_lane_goes_on(step: IngressFixture) -> None:
    step.full.held = asyncio.Event()
    goes, stays = loopback(), loopback()
    address, other = await step.door.open(goes), await step.door.open(stays)
    reader, writer = await call(address, TUNNEL + real(API))
    await until(lambda: bool(step.arrivals))
    waiting, idle = await call(address, b"")
    await counted(step, 2)
    await step.door.close_listeners([goes])
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection(*address)
    assert await waiting.read() == b"", "it had not said where it wants to go"
    idle.close()
    step.full.held.set()
    assert (await reader.read()).endswith(b"full")
    writer.close()
    assert (await ask(other, TUNNEL + real(API))).endswith(CARRIED + b"full")


async def test_connections_are_counted_by_sandbox(step: IngressFixture) -> None:
    step.full.held = asyncio.Event()
    box, other = await step.door.open(loopback()), await step.door.open(loopback("other"))
    streams = [await call(address, TUNNEL + real(API)) for address in (box, box, other)]
    await counted(step, 2)
    await counted(step, 1, "other")
    step.full.held.set()
    for reader, writer in streams:
        assert (await reader.read()).endswith(b"full")
        writer.close()
    await counted(step, 0)
    await counted(step, 0, "other")


async def test_closing_ends_what_is_outside_of_a_lane_and_nothing_else(step: IngressFixture) -> None:
    step.full.held = asyncio.Event()
    address = await step.door.open(loopback())
    inside, waiting = await call(address, TUNNEL + real(API)), await call(address, TUNNEL)
    assert (await inside[0].readuntil(b"full")).endswith(b"full")
    assert await waiting[0].readuntil(b"\r\n\r\n")
    silent = await call(address)
    await counted(step, 3)
    await step.door.close()
    assert await waiting[0].read() == b""
    assert await silent[0].read() == b""
    assert step.door.connections("box") == 1
    with pytest.raises(OSError, match=r"refused|failed"):
        await call(address)
    step.full.held.set()
    assert await inside[0].read() == b""
    await counted(step, 0)
    for _, writer in (inside, waiting, silent):
        writer.close()


@pytest.mark.parametrize(("stopping", "expected"), [(False, "access.withdrawn"), (True, "proxy.stopping")])
async def test_what_is_ended_at_the_door_is_recorded_once_if_it_has_named_a_destination(
    step: IngressFixture, stopping: bool, expected: str
) -> None:
    """Its CONNECT was answered and nothing came through it yet. Who has named nothing has asked nothing."""
    step.full.held = asyncio.Event()
    address = await step.door.open(loopback())
    inside, waiting = await call(address, TUNNEL + real(API)), await call(address, TUNNEL)
    assert (await inside[0].readuntil(b"full")).endswith(b"full")
    assert await waiting[0].readuntil(b"\r\n\r\n")
    silent = await call(address)
    await counted(step, 3)
    step.house.stopping = stopping
    await step.door.close()
    await step.door.close()
    assert step.codes == [expected]
    assert (step.last.host, step.last.port, step.last.entry) == (API, 443, "connect")
    step.full.held.set()
    await inside[0].read()
    await counted(step, 0)
    assert step.codes == [expected]
    for _, writer in (inside, waiting, silent):
        writer.close()


async def test_what_is_called_off_inside_of_a_lane_is_left_to_the_lane_to_record(
    step: IngressFixture,
) -> None:
    step.full.held = asyncio.Event()
    reader, writer = await call(await step.door.open(loopback()), TUNNEL + real(API))
    assert (await reader.readuntil(b"full")).endswith(b"full")
    for task in list(step.door._tasks):
        task.cancel()
    await counted(step, 0)
    assert step.codes == []
    writer.close()


async def test_one_that_is_being_refused_is_not_recorded_a_second_time(step: IngressFixture) -> None:
    address = await step.door.open(loopback())
    reader, writer = await call(address, connect("evil.example:443") + b"x" * 50_000)
    await until(lambda: bool(step.codes))
    await step.door.close()
    assert step.codes == ["host.unknown"]
    await reader.read()
    writer.close()


async def test_a_sandbox_can_be_closed_alone(step: IngressFixture) -> None:
    box, other = await step.door.open(loopback()), await step.door.open(loopback("other"))
    ours, theirs = await call(box), await call(other)
    await counted(step, 1)
    await counted(step, 1, "other")
    await step.door.close_sandbox("box")
    assert await ours[0].read() == b""
    theirs[1].write(TUNNEL + real(API))
    assert (await theirs[0].read()).endswith(b"full")
    for _, writer in (ours, theirs):
        writer.close()


async def test_a_connection_that_was_never_looked_at_is_closed_too(step: IngressFixture) -> None:
    ours, theirs = socket.socketpair()
    theirs.settimeout(0)
    task = step.door.take(step.listener(), theirs)
    await step.door.close()
    assert task.done()
    assert theirs.fileno() == -1
    assert step.door.connections("box") == 0
    ours.close()


@pytest.mark.parametrize("how", ["served", "refused", "left", "broken", "closed", "beyond"])
async def test_a_connection_that_has_ended_has_taken_nothing(how: str) -> None:
    """Whichever way it came to its end; and the names of sandboxes that left do not pile up."""
    pool = SharePool(clients=Capacity(100, 0 if how == "beyond" else 5))
    step = IngressFixture(FakeEngine(pool=pool), NEVER)
    if how == "broken":
        step.full.fault = RuntimeError("a fault")
    if how == "closed":
        step.full.held = asyncio.Event()
    call = step.call()
    if how != "beyond":
        await until(lambda: pool.used[Resource.CLIENTS] == 1)
    match how:
        case "left":
            call.end()
        case "refused":
            await call.send(get("http://denied.example.com/", "denied.example.com"))
        case _:
            await call.send(TUNNEL)
            await call.read()
            await call.send(real(API))
    if how == "closed":
        await until(lambda: bool(step.arrivals))
        call.task.cancel()
    with suppress(asyncio.CancelledError):
        await call.rest()
    call.sock.close()
    assert pool.used == [0] * len(Resource)
    assert pool.sandboxes == set()
    step.close()


async def test_a_burst_beyond_the_bound_is_turned_away_at_once() -> None:
    step = IngressFixture(FakeEngine(pool=SharePool(clients=Capacity(100, 5))), NEVER)
    address = await step.door.open(loopback())
    streams = [await call(address) for _ in range(50)]
    answers = [reader.read() for reader, _ in streams[5:]]
    assert {code(answer) for answer in await asyncio.gather(*answers)} == {"limit.connections"}
    assert step.door.connections("box") == 5
    assert step.codes == ["limit.connections"] * 45
    await step.door.close()
    for _, writer in streams:
        writer.close()
    step.close()


async def test_an_audit_that_breaks_hurts_only_the_connection(
    step: IngressFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise OSError("disk full: hunter2")

    address = await step.door.open(loopback())
    monkeypatch.setattr(step.house.audit, "refusal", fail)
    assert await ask(address, connect("evil.example:443")) == b""
    assert "OSError" in caplog.text
    assert "hunter2" not in caplog.text
    assert (await ask(address, TUNNEL + real(API))).endswith(b"full")
    await counted(step, 0)


async def test_connections_that_ended_are_forgotten(step: IngressFixture) -> None:
    address = await step.door.open(loopback())
    for data in (TUNNEL + real(API), connect("evil.example:443"), b"\x05\x01\x00"):
        await ask(address, data)
    await counted(step, 0)
    await until(lambda: not step.door._tasks)
    assert not step.door._outside
    assert not any(step.house.counts.open.values())


async def test_a_real_tls_client_gets_as_far_as_the_lane(step: IngressFixture) -> None:
    """Through a CONNECT, with the standard library's own client and its one-byte-at-a-time CONNECT reader."""

    async def refuse(admitted: object, reader: object, writer: asyncio.StreamWriter, ahead: bytes) -> None:
        assert ahead[0] == 0x16
        writer.write(bytes.fromhex("15030300020228"))

    step.door._passage._lanes = replace(step.door._passage._lanes, full=refuse)
    host, port = await step.door.open(loopback())

    def visit() -> str:
        from http.client import HTTPSConnection

        client = HTTPSConnection(host, port)
        client.set_tunnel(API, 443)
        try:
            client.connect()
        except ssl.SSLError as error:
            return error.reason
        finally:
            client.close()
        return ""

    assert "HANDSHAKE_FAILURE" in await asyncio.to_thread(visit)


async def test_plain_requests_keep_their_bytes(step: IngressFixture) -> None:
    address = await step.door.open(loopback())
    request = (
        get("http://plain.example.com/a?b", "plain.example.com", "Content-Length: 4", method="POST") + b"body"
    )
    assert await ask(address, request) == CARRIED + b"full"
    assert step.ahead == [request]


def test_the_bounds_of_tests_are_not_those_of_the_product() -> None:
    assert QUICK.linger_time < IngressLimits().linger_time
