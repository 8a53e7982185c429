"""A wire hands over what comes, in the order in which it came, and all of it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest
from mitmproxy.connection import Client, Connection, ConnectionState, Server
from mitmproxy.proxy.mode_specs import ProxyMode

import egress.proxy.wire
from egress.proxy.wire import Wire

ANSWER = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n"


class Driver:
    """Notes what a wire reports."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.data = b""
        self._changed = asyncio.Event()

    async def until(self, what: str) -> None:
        """Wait until this has been heard."""
        async with asyncio.timeout(10):
            while what not in self.heard:
                self._changed.clear()
                await self._changed.wait()

    def _hear(self, what: str) -> None:
        self.heard.append(what)
        self._changed.set()

    def received(self, wire: Wire, data: bytes) -> None:
        self._hear("received")
        self.data += data

    def ended(self, wire: Wire) -> None:
        self._hear("ended")

    def lost(self, wire: Wire) -> None:
        self._hear("lost")

    def blocked(self, wire: Wire, *, blocked: bool) -> None:
        self._hear("blocked" if blocked else "unblocked")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def server() -> Server:
    return Server(address=("127.0.0.1", 1))


def client() -> Client:
    return Client(
        peername=("", 0), sockname=("", 0), timestamp_start=0, proxy_mode=ProxyMode.parse("regular")
    )


async def wired(
    listener: socket.socket, driver: Driver, connection: Connection
) -> tuple[Wire, socket.socket]:
    """A wire, and its peer; the peer is blocking, so it acts while the loop stands still."""
    wire = Wire(driver, connection)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(lambda: wire, *listener.getsockname())
    wire.adopt(transport)
    connection.state = ConnectionState.OPEN
    return wire, listener.accept()[0]


async def refused(listener: socket.socket, driver: Driver, connection: Connection, answer: bytes) -> None:
    """A peer that answers without reading, and hangs up; then a write that fails for it."""
    wire, peer = await wired(listener, driver, connection)
    assert wire.transport is not None
    wire.transport.write(b"an upload begins")
    peer.sendall(answer)
    peer.close()  # with bytes unread, so that it is a reset
    wire.write(b"an upload goes on")
    await driver.until("lost")


async def test_an_answer_outlives_the_connection_that_brought_it(listener: socket.socket) -> None:
    driver = Driver()
    await refused(listener, driver, server(), ANSWER)
    assert driver.heard == ["received", "lost"]
    assert driver.data == ANSWER


async def test_what_is_still_read_is_bounded(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(egress.proxy.wire, "READ_AT_LAST", 20)
    driver = Driver()
    await refused(listener, driver, server(), ANSWER)
    assert driver.data == ANSWER[:20]
    assert driver.heard == ["received", "lost"]


async def test_a_client_that_is_gone_asks_for_nothing_more(listener: socket.socket) -> None:
    driver = Driver()
    await refused(listener, driver, client(), b"GET / HTTP/1.1\r\n\r\n")
    assert driver.heard == ["lost"]


async def test_an_end_is_told_and_leaves_the_other_way_open(listener: socket.socket) -> None:
    driver = Driver()
    wire, peer = await wired(listener, driver, server())
    with peer:
        peer.sendall(b"goodbye")
        peer.shutdown(socket.SHUT_WR)
        await driver.until("ended")
        wire.write(b"and you")
        assert peer.recv(100) == b"and you"
        wire.close()
        await driver.until("lost")
    assert driver.heard == ["received", "ended", "lost"]
    assert wire.connection.state is ConnectionState.CLOSED


async def test_nothing_is_read_while_reading_is_held(listener: socket.socket) -> None:
    driver = Driver()
    wire, peer = await wired(listener, driver, server())
    with peer:
        wire.gate(reads=False)
        peer.sendall(b"wait")
        assert wire.transport is not None
        assert not wire.transport.is_reading()
        wire.gate(reads=True)
        await driver.until("received")
        wire.abort()
        await driver.until("lost")
    assert driver.data == b"wait"
