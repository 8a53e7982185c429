"""The client's connection while the door reads it: what has come and not been used, and how it ends.

Everything read is kept until it is taken, so that a lane gets each byte the client sent and the door
can look ahead. It knows no protocol, and it never waits without a bound.
"""

from __future__ import annotations

import asyncio
from typing import Final

READ_SIZE: Final = 64 * 1024
"""Bytes asked for at a time."""


class _TransportEnd(asyncio.Protocol):
    """Waits for the end of a transport, and for nothing else."""

    def __init__(self) -> None:
        self.future = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.future.set_result(None)


class ClientWriter(asyncio.StreamWriter):
    """A writer that does not close its transport when it is forgotten: another one may use it by then."""

    def __del__(self) -> None:
        pass


class ClientStream:
    """Reader, writer, and the bytes between them and the door."""

    __slots__ = ("kept", "reader", "writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.kept = bytearray()

    async def peek_first_byte(self, within: float) -> int | None:
        """Return the first byte that is not used yet; None where the client closes before it comes.

        Raises `TimeoutError` after `within` seconds.
        """
        if not self.kept:
            async with asyncio.timeout(within):
                await self.read_more()
        return self.kept[0] if self.kept else None

    async def read_more(self) -> bytes:
        """Wait for more bytes, keep and return them; none means that the client has closed."""
        try:
            data = await self.reader.read(READ_SIZE)
        except OSError:
            data = b""
        self.kept += data
        return data

    def take_unread(self) -> bytes:
        """Hand over what was read and not used."""
        data = bytes(self.kept)
        self.kept.clear()
        return data

    def resume(self, unread: bytes) -> None:
        """Read on after a lane that has handed the connection back, with these bytes of it."""
        transport = self.writer.transport
        loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader(limit=READ_SIZE, loop=loop)
        protocol = asyncio.StreamReaderProtocol(self.reader, loop=loop)
        self.writer = ClientWriter(transport, protocol, self.reader, loop)
        self.kept[:] = unread
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if isinstance(transport, asyncio.Transport):
            transport.resume_reading()

    async def send(self, data: bytes, within: float) -> bool:
        """Write, and wait until it is on its way; whether it could be."""
        try:
            async with asyncio.timeout(within):
                self.writer.write(data)
                await self.writer.drain()
        except OSError:
            return False
        return True

    async def linger(self, most: int, within: float) -> None:
        """End our side, then throw away what still comes: up to `most` bytes, for `within` seconds.

        A connection that is closed on unread bytes is reset, and the client never reads our answer.
        """
        self.kept.clear()
        try:
            async with asyncio.timeout(within):
                self.writer.write_eof()
                while most > 0 and (data := await self.reader.read(min(most, READ_SIZE))):
                    most -= len(data)
        except OSError:
            return

    async def close(self, within: float) -> None:
        """Close once what was written has left; drop it where that takes longer than `within` seconds."""
        transport = self.writer.transport
        if not self.is_gone:
            # Lanes put protocols of their own in place of the stream's, so that one need not be told.
            gone = _TransportEnd()
            transport.set_protocol(gone)
            transport.close()
            await asyncio.wait((gone.future,), timeout=within)
        self.abort()

    def abort(self) -> None:
        """Close now, whatever has not left yet."""
        # A transport that is gone does not bear to be told again.
        if not self.is_gone:
            self.writer.transport.abort()

    @property
    def is_gone(self) -> bool:
        """The connection is closed."""
        return bool(self.writer.transport.get_extra_info("socket").fileno() < 0)
