"""On a pair of sockets: nothing is lost, and nothing waits for ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from egress.proxy.ingress.client_stream import ClientStream
from egress.proxy.ingress.server import _streams

SHORT = 0.05


@pytest.fixture(name="pair")
async def client_and_peer() -> AsyncIterator[tuple[ClientStream, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    client = await _streams(ours)
    yield client, theirs
    theirs.close()
    await client.close(SHORT)


Pair = tuple[ClientStream, socket.socket]


async def test_looks_at_the_first_byte_without_using_it(pair: Pair) -> None:
    client, peer = pair
    peer.sendall(b"abc")
    assert await client.peek_first_byte(SHORT) == ord("a")
    assert await client.peek_first_byte(SHORT) == ord("a")
    assert client.take_unread() == b"abc"
    assert client.take_unread() == b""


async def test_tells_an_end_from_a_byte(pair: Pair) -> None:
    client, peer = pair
    peer.shutdown(socket.SHUT_WR)
    assert await client.peek_first_byte(SHORT) is None
    assert await client.read_more() == b""


async def test_does_not_wait_for_ever_for_the_first_byte(pair: Pair) -> None:
    with pytest.raises(TimeoutError):
        await pair[0].peek_first_byte(SHORT)


async def test_keeps_what_comes_in_order(pair: Pair) -> None:
    client, peer = pair
    peer.sendall(b"ab")
    await client.read_more()
    peer.sendall(b"cd")
    assert await client.read_more() == b"cd"
    assert client.take_unread() == b"abcd"


async def test_is_read_on_after_another_protocol_has_had_it(pair: Pair) -> None:
    """What that one has read and not used comes first."""
    client, peer = pair
    transport = client.writer.transport
    assert isinstance(transport, asyncio.Transport)
    transport.pause_reading()
    transport.set_protocol(asyncio.Protocol())
    peer.sendall(b"cd")
    client.resume(b"ab")
    assert await client.peek_first_byte(SHORT) == ord("a")
    assert await client.read_more() == b"cd"
    assert client.take_unread() == b"abcd"
    assert await client.send(b"and back", SHORT)
    assert await asyncio.get_running_loop().run_in_executor(None, peer.recv, 100) == b"and back"
    assert not client.is_gone


async def test_a_reset_is_an_end(pair: Pair) -> None:
    client, _ = pair
    client.reader.set_exception(ConnectionResetError())
    assert await client.read_more() == b""
    assert await client.peek_first_byte(SHORT) is None


async def test_says_whether_sending_worked(pair: Pair) -> None:
    client, peer = pair
    assert await client.send(b"hello", SHORT)
    assert peer.recv(10) == b"hello"
    assert not await client.send(b"x" * (16 << 20), SHORT)


async def test_lingers_no_longer_than_its_bounds(pair: Pair) -> None:
    client, peer = pair
    peer.sendall(b"x" * 100)
    await client.linger(50, 3600.0)
    await client.linger(1 << 20, SHORT)


async def test_lingering_ends_our_side_and_with_theirs(pair: Pair) -> None:
    client, peer = pair
    waiting = asyncio.create_task(client.linger(1 << 20, 3600.0))
    assert await asyncio.to_thread(peer.recv, 10) == b""
    peer.close()
    await waiting


async def test_closing_waits_until_all_has_left(pair: Pair) -> None:
    client, peer = pair
    client.writer.write(b"x" * (4 << 20))
    closing = asyncio.create_task(client.close(3600.0))
    taken = 0
    while data := await asyncio.to_thread(peer.recv, 1 << 20):
        taken += len(data)
    await closing
    assert taken == 4 << 20


async def test_closing_gives_up_on_a_peer_that_reads_nothing(pair: Pair) -> None:
    client, _ = pair
    client.writer.write(b"x" * (16 << 20))
    await client.close(SHORT)
    await asyncio.sleep(0)
    assert client.writer.transport.is_closing()


async def test_closing_works_after_a_lane_took_the_transport(pair: Pair) -> None:
    client, peer = pair
    client.writer.transport.set_protocol(asyncio.Protocol())
    await client.close(3600.0)
    assert peer.recv(10) == b""
    await client.close(3600.0)
