"""A neighbour that means harm: how it gets to its hosts, and what it does over and over.

Each kind is a coroutine. What it sends is made beforehand where that can be, and what it receives is thrown
away unread, so that little of the machine is spent on it. A connection that the proxy ends is opened anew.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

from bench.neighbours.setting import BAD, Stage

Kind = Callable[["Neighbour"], Awaitable[None]]
KINDS: dict[str, Kind] = {}
CONNECTIONS = 32
MANY = 400
"""Connections where it is their number that hurts."""
READ_BYTES = 1 << 18


def kind(name: str) -> Callable[[Kind], Kind]:
    def note(made: Kind) -> Kind:
        KINDS[name] = made
        return made

    return note


class Line:
    """A connection to the proxy, with TLS on it or without."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None

    async def secure(self, context: ssl.SSLContext, name: str) -> None:
        """Do the handshake."""
        tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self._writer.write(self._outgoing.read())
                data = await self._reader.read(READ_BYTES)
                if not data:
                    raise ConnectionError("closed within the handshake") from None
                self._incoming.write(data)
            else:
                break
        self._tls = tls
        self._writer.write(self._outgoing.read())

    def write(self, data: bytes) -> None:
        if self._tls is None:
            self._writer.write(data)
        else:
            self._tls.write(data)
            self._writer.write(self._outgoing.read())

    async def drained(self) -> None:
        """Return when most of it has left."""
        await self._writer.drain()

    async def pour(self, data: bytes) -> None:
        """Write this without an end."""
        while True:
            self.write(data)
            await self.drained()

    async def read(self) -> bytes:
        """What came; empty at the end."""
        if self._tls is None:
            return await self._reader.read(READ_BYTES)
        while True:
            try:
                return self._tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                data = await self._reader.read(READ_BYTES)
                if not data:
                    return b""
                self._incoming.write(data)

    async def discard(self) -> None:
        """Read to the end, without looking."""
        while await self._reader.read(READ_BYTES):
            pass

    async def head(self) -> bytes:
        """Everything up to the end of a head."""
        data = b""
        while b"\r\n\r\n" not in data:
            part = await self.read()
            if not part:
                raise ConnectionError("closed within a head")
            data += part
        return data

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def talk(self, first: bytes, more: bytes, *, reads: bool = True) -> None:
        """Say this, then that without an end; take what comes, or leave it."""
        self.write(first)
        tasks = [asyncio.create_task(self.pour(more))] if more else []
        if reads:
            tasks.append(asyncio.create_task(self.discard()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.close()


class Neighbour:
    """A sandbox that means harm."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def dial(self) -> Line:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.stage.proxy, limit=READ_BYTES)
        return Line(reader, writer)

    async def tunnel(self, name: str) -> Line:
        """CONNECT, and nothing inside."""
        line = await self.dial()
        authority = f"{name}:{self.stage.port(name)}"
        line.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        head = await line.head()
        if b" 200 " not in head.partition(b"\r\n")[0]:
            sys.exit(f"CONNECT {authority} was answered {head[:80]!r}")
        return line

    async def visit(self, name: str = BAD, alpn: str = "http/1.1") -> Line:
        """The same, with TLS inside."""
        line = await self.tunnel(name)
        context = self._contexts.get(alpn)
        if context is None:
            context = self._contexts[alpn] = ssl.create_default_context(cafile=self.stage.ca)
            context.set_alpn_protocols([alpn])
        await line.secure(context, name)
        return line

    def request(self, path: str, *fields: str, method: str = "GET", name: str = BAD) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {name}:{self.stage.port(name)}", *fields]
        return "\r\n".join([*lines, "", ""]).encode()


async def again(story: Callable[[], Awaitable[object]], count: int = CONNECTIONS) -> None:
    """Let so many do this over and over."""

    async def one() -> None:
        while True:
            with suppress(OSError, ssl.SSLError, TimeoutError):
                await story()
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one() for _ in range(count)))
