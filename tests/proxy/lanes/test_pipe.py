"""Two joined transports: every byte arrives, ends are passed on, a slow reader stops a fast writer."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from dataclasses import dataclass
from functools import partial

import pytest

from egress.proxy.lanes.pipe import BUFFER_BYTES, Pipe, PipeBuffer, PipeSide

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Joined:
    """A pipe with its two outer ends, spoken to as streams."""

    pipe: Pipe
    room: PipeBuffer
    client: Streams
    upstream: Streams


async def joined(ahead: bytes = b"", idle: float = 30, room: PipeBuffer | None = None) -> Joined:
    """Join two pairs of sockets."""
    loop = asyncio.get_running_loop()
    room = room or PipeBuffer()
    pipe = Pipe(room, idle)
    outer = []
    for side in (pipe.client, pipe.upstream):
        inner, peer = socket.socketpair()
        for sock in (inner, peer):
            # Small buffers, so that back pressure comes early.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 * 1024)
        await loop.create_connection(partial(_same, side), sock=inner)
        outer.append(await asyncio.open_connection(sock=peer))
    pipe.join(ahead)
    return Joined(pipe, room, outer[0], outer[1])


def _same(side: PipeSide) -> PipeSide:
    return side


def close(found: Joined) -> None:
    for _, writer in (found.client, found.upstream):
        writer.close()


async def test_passes_on_in_both_directions() -> None:
    found = await joined(b"hello, ")
    found.client[1].write(b"upstream")
    assert await found.upstream[0].readexactly(15) == b"hello, upstream"
    found.upstream[1].write(b"hi")
    assert await found.client[0].readexactly(2) == b"hi"
    assert (found.pipe.client.count, found.pipe.upstream.count) == (15, 2)
    close(found)
    await found.pipe.wait()


async def test_what_is_sent_before_the_join_waits() -> None:
    loop = asyncio.get_running_loop()
    pipe = Pipe(PipeBuffer(), 30)
    ours, client = socket.socketpair()
    theirs, upstream = socket.socketpair()
    with client, upstream:
        client.send(b"second")
        upstream.send(b"answer")
        await loop.create_connection(lambda: pipe.client, sock=ours)
        await loop.create_connection(lambda: pipe.upstream, sock=theirs)
        await asyncio.sleep(0.01)
        pipe.join(b"first ")
        upstream.setblocking(False)
        client.setblocking(False)
        assert await loop.sock_recv(upstream, 6) == b"first "
        assert await loop.sock_recv(upstream, 6) == b"second"
        assert await loop.sock_recv(client, 6) == b"answer"
    await pipe.wait()


@pytest.mark.parametrize("step", [1, 1000, 70_000, 600_000])
async def test_every_byte_arrives_in_its_order_however_slowly_it_is_read(step: int) -> None:
    """What could not be sent at once must not be overwritten by what is read next, by any pipe."""
    room = PipeBuffer()
    first, second = await joined(room=room), await joined(room=room)
    blocks = [bytes([number % 251]) * 60_000 + number.to_bytes(4) for number in range(40)]
    sent = hashlib.sha256(b"".join(blocks)).digest()

    async def pour(writer: asyncio.StreamWriter) -> None:
        for block in blocks:
            writer.write(block)
            await writer.drain()
        writer.write_eof()

    async def drink(reader: asyncio.StreamReader) -> bytes:
        got = hashlib.sha256()
        got.update(await reader.read(step))
        while data := await reader.read(max(step, 1000)):
            got.update(data)
            await asyncio.sleep(0)
        return got.digest()

    streams = [(pair.client, pair.upstream) for pair in (first, second)]
    streams += [(pair.upstream, pair.client) for pair in (first, second)]
    async with asyncio.TaskGroup() as group:
        for one, _ in streams:
            group.create_task(pour(one[1]))
        got = [group.create_task(drink(other[0])) for _, other in streams]
    assert [task.result() for task in got] == [sent] * 4
    close(first)
    close(second)
    await first.pipe.wait()
    await second.pipe.wait()


async def test_a_reader_that_stops_stops_the_writer() -> None:
    found = await joined()
    sent = 0
    while found.pipe.client.transport.is_reading():
        found.client[1].write(bytes(100_000))
        sent += 100_000
        await asyncio.sleep(0)
    assert 0 < found.pipe.upstream.transport.get_write_buffer_size() <= BUFFER_BYTES
    assert found.pipe.upstream.transport.is_reading()
    # As soon as it is read on, the rest comes.
    while sent:
        sent -= len(await found.upstream[0].read(1 << 20))
    assert found.pipe.client.transport.is_reading()
    close(found)
    await found.pipe.wait()


async def test_an_idle_pipe_holds_no_memory_of_its_own() -> None:
    found = await joined()
    before = found.room.view
    for _ in range(50):
        found.client[1].write(b"x" * 1000)
        await found.upstream[0].readexactly(1000)
    assert found.room.view is before
    close(found)
    await found.pipe.wait()


# Ends -------------------------------------------------------------------------------------------


async def test_the_end_of_one_direction_leaves_the_other_open() -> None:
    found = await joined()
    found.client[1].write(b"question")
    found.client[1].write_eof()
    assert await found.upstream[0].read() == b"question"
    found.upstream[1].write(b"a late answer")
    assert await found.client[0].readexactly(13) == b"a late answer"
    found.upstream[1].write_eof()
    assert await found.client[0].read() == b""
    await found.pipe.wait()
    assert found.pipe.by == "client"
    close(found)


async def test_the_end_of_both_directions_closes_both() -> None:
    found = await joined()
    found.upstream[1].write_eof()
    found.client[1].write_eof()
    await found.pipe.wait()
    assert found.pipe.by in {"client", "upstream"}
    close(found)


async def test_what_was_sent_before_a_close_still_arrives() -> None:
    found = await joined()
    data = bytes(3 * BUFFER_BYTES)
    found.upstream[1].write(data)
    found.upstream[1].close()
    assert await found.client[0].readexactly(len(data)) == data
    found.client[1].close()
    await found.pipe.wait()
    assert found.pipe.by == "upstream"


async def test_a_lost_side_closes_the_other_one() -> None:
    found = await joined()
    found.client[1].transport.abort()
    assert await found.upstream[0].read() == b""
    found.upstream[1].close()
    await found.pipe.wait()
    assert found.pipe.by == "client"


async def test_a_side_that_was_lost_before_the_join_closes_the_other_one() -> None:
    loop = asyncio.get_running_loop()
    pipe = Pipe(PipeBuffer(), 30)
    ours, client = socket.socketpair()
    theirs, upstream = socket.socketpair()
    await loop.create_connection(lambda: pipe.client, sock=ours)
    await loop.create_connection(lambda: pipe.upstream, sock=theirs)
    pipe.upstream.transport.abort()
    await asyncio.sleep(0)
    pipe.join(b"hello")
    await pipe.wait()
    with client, upstream:
        assert client.recv(10) == b""
    assert pipe.by == "upstream"


async def test_an_abort_closes_at_once_whatever_has_not_been_sent() -> None:
    found = await joined()
    found.client[1].write(bytes(5 * BUFFER_BYTES))
    await asyncio.sleep(0.01)
    found.pipe.abort("proxy")
    await found.pipe.wait()
    assert found.pipe.by == "proxy"
    close(found)


async def test_silence_ends_it() -> None:
    found = await joined(idle=0.04)
    await found.pipe.wait()
    assert found.pipe.by == "idle"
    assert await found.client[0].read() == b""
    close(found)


async def test_half_an_end_and_then_silence_ends_it() -> None:
    found = await joined(idle=0.04)
    found.client[1].write_eof()
    await found.pipe.wait()
    close(found)


async def test_a_reader_that_never_reads_on_is_silence_too() -> None:
    found = await joined(idle=0.1)
    found.client[1].write(bytes(5 * BUFFER_BYTES))
    await found.pipe.wait()
    assert found.pipe.by == "idle"
    close(found)


async def test_bytes_in_one_direction_are_no_silence() -> None:
    """Looks at the quarter that passed, not at the time it took: no bound on how slow a test may be."""
    found = await joined()
    for _ in range(20):
        found.upstream[1].write(b"x")
        await found.client[0].readexactly(1)
        found.pipe._check_idle()
        assert found.pipe.by is None
    for _ in range(4):
        found.pipe._check_idle()
    await found.pipe.wait()
    close(found)
