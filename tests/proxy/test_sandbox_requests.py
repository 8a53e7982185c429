"""`--sandbox-requests`: how much one sandbox may have under way, through a proxy in a process of its own."""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.proxy.lab.client import at
from tests.proxy.serve_process import ServeProcess, until

NAME = "blind.example.test"
SEEN = "api.example.test"
RULES = """\
version: 1
hosts:
  {name}: {{ ports: [{port}], addresses: [127.0.0.1/32], intercept: never }}
  {seen}: {{ ports: [], http: [{port}], addresses: [127.0.0.1/32] }}
"""
BEYOND_THE_OLD_BOUND = 2100
"""Half of the slots that the audit begins with were 2,048, and the most that a sandbox could have."""


@pytest.fixture
async def writers() -> AsyncIterator[list[asyncio.StreamWriter]]:
    """The clients' connections, closed in the end."""
    opened: list[asyncio.StreamWriter] = []
    yield opened
    for writer in opened:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The port of an upstream from which everything comes back."""
    server = await asyncio.start_server(_echo, "127.0.0.1", 0, backlog=1024)
    yield server.sockets[0].getsockname()[1]
    server.close()


def serving(folder: Path, port: int, *arguments: str) -> ServeProcess:
    names = [word for name in (NAME, SEEN) for word in ("--resolve", f"{name}=127.0.0.1")]
    return ServeProcess(folder, RULES.format(name=NAME, seen=SEEN, port=port), [*names, *arguments])


def hello() -> bytes:
    """What a tunnel has to begin with: a hello that names the host."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=NAME)
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


async def tunnel(served: ServeProcess, port: int, said: bytes, writers: list[asyncio.StreamWriter]) -> bytes:
    """Open a tunnel; return what comes back of the first bytes on it: the same where it is carried."""
    reader, writer = await asyncio.open_connection(*at(served.port))
    writers.append(writer)
    authority = f"{NAME}:{port}"
    writer.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    writer.write(said)
    with suppress(asyncio.IncompleteReadError, ConnectionResetError):
        return await reader.readexactly(len(said))
    return b""


async def asked(served: ServeProcess, port: int) -> bytes:
    """The first line of the answer to a request in clear text."""
    reader, writer = await asyncio.open_connection(*at(served.port))
    writer.write(f"GET http://{SEEN}:{port}/ HTTP/1.1\r\nHost: {SEEN}:{port}\r\n\r\n".encode())
    head = await reader.read(4096)
    writer.close()
    await writer.wait_closed()
    return head


async def test_beyond_the_setting_a_request_and_a_tunnel_are_refused_by_its_own_code(
    tmp_path: Path, port: int, writers: list[asyncio.StreamWriter]
) -> None:
    said = hello()
    with serving(tmp_path, port, "--sandbox-requests", "3") as served:
        for _ in range(3):
            assert await tunnel(served, port, said, writers) == said
        assert await tunnel(served, port, said, writers) == b""
        refused = await asked(served, port)
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"limit.exchanges" in refused

        def denials() -> list[object]:
            return [line["code"] for line in served.records() if line.get("verdict") == "deny"]

        await asyncio.to_thread(until, lambda: len(denials()) == 2)
        assert denials() == ["limit.exchanges"] * 2
        assert (await asyncio.to_thread(served.ask, "GET", "/readyz"))[0] == 200, "the audit is well"
        # A place that is left is a place again.
        writers[0].close()
        await asyncio.to_thread(served.recorded, "tunnel")
        assert await tunnel(served, port, said, writers) == said


@contextmanager
def descriptors(count: int) -> Iterator[None]:
    """Have so many descriptors for a while."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < count:
        pytest.skip(f"the system gives a process {before[1]} descriptors, which is too few")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(count, before[0]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.nightly
async def test_a_sandbox_may_have_as_many_tunnels_as_the_settings_say(
    tmp_path: Path, port: int, writers: list[asyncio.StreamWriter]
) -> None:
    said = hello()
    settings = ("--connections", "4800", "--sandbox-connections", "2400")
    with descriptors(16_000), serving(tmp_path, port, *settings) as served:
        for _ in range(BEYOND_THE_OLD_BOUND):
            assert await tunnel(served, port, said, writers) == said
        assert not [record for record in served.records() if record.get("verdict") == "deny"]
        for writer in writers:
            writer.close()
        await asyncio.to_thread(served.recorded, "tunnel", BEYOND_THE_OLD_BOUND)
