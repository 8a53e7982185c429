"""One connection without a stream: bytes in and out, held and let go, closed in both ways."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from mitmproxy.connection import ConnectionState, Server

from egress.proxy.event_loop import make_turns
from egress.proxy.lanes.socket_transport import (
    HIGH_WATER_BYTES,
    MAX_QUEUED_BYTES,
    OVERFULL_BYTES,
    SocketTransport,
)


class Driver:
    """Notes what a wire reports."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.changed = asyncio.Event()

    def _note(self, *told: object) -> None:
        self.told.append(told)
        self.changed.set()

    def received(self, wire: SocketTransport, data: bytes) -> None:
        self._note("received", data)

    def ended(self, wire: SocketTransport) -> None:
        self._note("ended")

    def lost(self, wire: SocketTransport) -> None:
        self._note("lost")

    def blocked(self, wire: SocketTransport, *, blocked: bool) -> None:
        self._note("blocked", blocked)

    async def until(self, *told: object) -> None:
        async with asyncio.timeout(10):
            while told not in self.told:
                self.changed.clear()
                await self.changed.wait()


class Share:
    """What a sandbox has for a connection."""

    def __init__(self) -> None:
        self.turn = make_turns(lambda: 0.0).of("test")
        self.buffer_bytes = HIGH_WATER_BYTES


class Line:
    """A wire, its driver, and the other end."""

    def __init__(self, wire: SocketTransport, driver: Driver, far: socket.socket) -> None:
        self.wire, self.driver, self.far = wire, driver, far


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    driver = Driver()
    connection = Server(address=("api.example.com", 443))
    connection.state = ConnectionState.OPEN
    wire = SocketTransport(driver, connection, Share())
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: wire, sock=near)
    wire.adopt(transport)
    yield Line(wire, driver, far)
    wire.abort()
    await driver.until("lost")
    far.close()


async def test_hands_over_what_comes_and_sends_what_it_is_given(line: Line) -> None:
    line.far.send(b"hello")
    await line.driver.until("received", b"hello")
    line.wire.write(b"and back")
    assert await asyncio.get_running_loop().sock_recv(line.far, 100) == b"and back"


async def test_an_end_of_the_peer_is_told_and_leaves_the_way_back_open(line: Line) -> None:
    line.far.shutdown(socket.SHUT_WR)
    await line.driver.until("ended")
    line.wire.write(b"still here")
    assert await asyncio.get_running_loop().sock_recv(line.far, 100) == b"still here"


async def test_what_is_held_is_not_read_before_it_is_let_go(line: Line) -> None:
    line.wire.gate(reads=False)
    line.wire.gate(reads=False)
    line.far.send(b"waits")
    for _ in range(20):
        await asyncio.sleep(0)
    assert line.driver.told == []
    line.wire.gate(reads=True)
    await line.driver.until("received", b"waits")


async def test_a_wire_that_is_released_reads_nothing_and_leaves_the_transport_open(line: Line) -> None:
    transport = line.wire.transport
    assert transport is not None
    line.wire.release()
    line.far.send(b"for the next owner")
    for _ in range(20):
        await asyncio.sleep(0)
    line.wire.write(b"nothing")
    line.wire.abort()
    assert line.driver.told == []
    assert not transport.is_closing()
    assert not transport.is_reading()
    transport.abort()


async def test_says_when_the_peer_does_not_keep_up_and_when_it_does_again(line: Line) -> None:
    line.wire.write(bytes(8 * HIGH_WATER_BYTES))
    await line.driver.until("blocked", True)
    loop = asyncio.get_running_loop()
    while ("blocked", False) not in line.driver.told:
        await loop.sock_recv(line.far, HIGH_WATER_BYTES)


async def test_a_close_sends_first_what_waits(line: Line) -> None:
    line.wire.write(bytes(4 * HIGH_WATER_BYTES))
    line.wire.close()
    line.wire.write(b"too late")
    assert line.wire.connection.state is ConnectionState.CLOSED
    got, loop = 0, asyncio.get_running_loop()
    while data := await loop.sock_recv(line.far, HIGH_WATER_BYTES):
        got += len(data)
    assert got == 4 * HIGH_WATER_BYTES
    await line.driver.until("lost")


async def test_an_abort_does_not_wait(line: Line) -> None:
    line.wire.write(bytes(8 * HIGH_WATER_BYTES))
    line.wire.abort()
    await line.driver.until("lost")
    assert line.wire.connection.state is ConnectionState.CLOSED


async def test_of_a_connection_that_is_gone_nothing_can_go_wrong_any_more(line: Line) -> None:
    line.wire.abort()
    await line.driver.until("lost")
    line.wire.write(b"x")
    line.wire.gate(reads=False)
    line.wire.begin()
    line.wire.close()
    line.wire.abort()
    assert line.driver.told.count(("lost",)) == 1


async def test_a_peer_that_makes_us_answer_and_takes_nothing_is_not_read_any_more(line: Line) -> None:
    line.wire.write(bytes(2 * OVERFULL_BYTES))
    await line.driver.until("blocked", True)
    line.wire.write(b"one more")
    line.wire.gate(reads=False)
    line.wire.gate(reads=True)
    line.far.send(b"waits")
    for _ in range(20):
        await asyncio.sleep(0)
    assert ("received", b"waits") not in line.driver.told
    loop = asyncio.get_running_loop()
    while ("received", b"waits") not in line.driver.told:
        assert await loop.sock_recv(line.far, OVERFULL_BYTES)
    assert ("lost",) not in line.driver.told


async def test_what_is_held_stays_held_when_a_full_wire_has_emptied(line: Line) -> None:
    line.wire.write(bytes(2 * OVERFULL_BYTES))
    await line.driver.until("blocked", True)
    line.wire.write(b"one more")
    line.wire.gate(reads=False)
    line.far.send(b"waits")
    loop = asyncio.get_running_loop()
    while ("blocked", False) not in line.driver.told:
        await loop.sock_recv(line.far, OVERFULL_BYTES)
    for _ in range(20):
        await asyncio.sleep(0)
    assert ("received", b"waits") not in line.driver.told


async def test_a_wire_on_which_too_much_waits_is_given_up(line: Line) -> None:
    line.wire.write(bytes(MAX_QUEUED_BYTES))
    await line.driver.until("blocked", True)
    line.wire.write(bytes(OVERFULL_BYTES))
    await line.driver.until("lost")
    assert line.wire.connection.state is ConnectionState.CLOSED
