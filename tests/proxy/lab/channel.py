"""A byte stream, clear or in TLS, that shows how it ended.

asyncio's own TLS hides what a test of a proxy has to see and do: whether the peer said goodbye
(`close_notify`) or was cut off, and to end a stream in each of the bad ways. So TLS runs on memory
here, over a plain asyncio stream; both the upstreams and the clients of the lab use this class.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from contextlib import suppress
from enum import StrEnum
from typing import Self

CHUNK = 64 * 1024
LONGEST_HEAD = 16 * 1024 * 1024


class End(StrEnum):
    """How the peer ended the stream."""

    OPEN = "open"
    CLEAN = "clean"
    """close_notify under TLS, FIN on clear text."""
    CUT = "cut"
    """FIN without close_notify."""
    RESET = "reset"
    BROKEN = "broken"
    """A TLS alert, or bytes that are not TLS."""


class EndedError(Exception):
    """The stream ended before what was waited for."""


class Reader(asyncio.StreamReader):
    """Gives out what came before a reset, which asyncio's own throws away."""

    lost: Exception | None = None

    def set_exception(self, exc: Exception) -> None:
        self.lost = exc
        self.feed_eof()


class Channel:
    """Buffered reading and writing; every way to end."""

    def __init__(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._buffer = bytearray()
        self.end = End.OPEN
        self.failure = ""
        """Why TLS failed, in OpenSSL's words."""

    # Beginning ------------------------------------------------------------------------------------

    @classmethod
    async def dial(cls, host: str, port: int, source: str = "") -> Self:
        """Connect without TLS, from the address `source` if one is named."""
        loop = asyncio.get_running_loop()
        reader = Reader()
        transport, protocol = await loop.create_connection(
            lambda: asyncio.StreamReaderProtocol(reader),
            host,
            port,
            local_addr=(source, 0) if source else None,
        )
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def to_tls(
        self, context: ssl.SSLContext, name: str | None = None, *, server_side: bool = False
    ) -> None:
        """Shake hands; ssl.SSLError or ConnectionError when that fails. Bytes read ahead belong to TLS."""
        self._incoming.write(bytes(self._buffer))
        self._buffer.clear()
        tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=name or None
        )
        self._tls = tls
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._fill():
                    self.end = End.RESET if self._reader.lost else End.CUT
                    raise ConnectionResetError("the peer left during the handshake") from None
            except ssl.SSLError as error:
                self.end, self.failure = End.BROKEN, error.reason or type(error).__name__
                with suppress(OSError):
                    await self._flush()
                raise
        await self._flush()

    @property
    def tls(self) -> ssl.SSLObject | None:
        return self._tls

    @property
    def alpn(self) -> str | None:
        return self._tls.selected_alpn_protocol() if self._tls else None

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate, DER."""
        return self._tls.getpeercert(binary_form=True) if self._tls else None

    # Reading --------------------------------------------------------------------------------------

    async def some(self, most: int = CHUNK) -> bytes:
        """What is there, at least one byte; b"" once the stream has ended (see `end`)."""
        if self._buffer:
            found = bytes(self._buffer[:most])
            del self._buffer[:most]
            return found
        return await self._receive(most)

    async def until(self, mark: bytes, most: int = LONGEST_HEAD) -> bytes:
        """Everything up to and with `mark`; EndedError when it does not come."""
        looked = 0
        while (at := self._buffer.find(mark, looked)) < 0:
            looked = max(0, len(self._buffer) - len(mark))
            if len(self._buffer) > most:
                raise EndedError(f"no {mark!r} in {most} bytes")
            await self._more()
        return self._take(at + len(mark))

    async def exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._more()
        return self._take(count)

    async def everything(self) -> bytes:
        """All bytes until the stream ends."""
        parts = []
        while part := await self.some():
            parts.append(part)
        return b"".join(parts)

    async def wait_or_end(self, event: asyncio.Event) -> None:
        """Wait for the event, or until the peer has ended the stream; what comes meanwhile is kept."""
        waiting = {asyncio.ensure_future(event.wait()), asyncio.ensure_future(self._hoard())}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _hoard(self) -> None:
        while data := await self._receive(CHUNK):
            self._buffer += data

    async def _more(self) -> None:
        data = await self._receive(CHUNK)
        if not data:
            raise EndedError(f"the stream ended ({self.end}) after {bytes(self._buffer[:200])!r}")
        self._buffer += data

    def _take(self, count: int) -> bytes:
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found

    async def _receive(self, most: int) -> bytes:
        while self.end is End.OPEN:
            if not self._tls:
                return await self._wire(most)
            try:
                data = self._tls.read(most)
            except ssl.SSLWantReadError:
                # What we still had to say may find nobody; what the peer said before still counts.
                with suppress(OSError):
                    await self._flush()
                await self._fill()
            except ssl.SSLError as error:
                self.end = End.CUT if isinstance(error, ssl.SSLEOFError) else End.BROKEN
                self.end = End.RESET if self._reader.lost else self.end
                self.failure = error.reason or type(error).__name__
            else:
                self.end = self.end if data else End.CLEAN
                return data
        return b""

    async def _wire(self, most: int) -> bytes:
        data = await self._reader.read(most)
        if not data:
            self.end = End.RESET if self._reader.lost else End.CLEAN
        return data

    async def _fill(self) -> bool:
        data = await self._reader.read(CHUNK)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        return bool(data)

    # Writing --------------------------------------------------------------------------------------

    async def send(self, data: bytes) -> None:
        """Write all of it, waiting where the peer does not read; OSError when it is gone."""
        if not self._tls:
            self._writer.write(data)
            await self._writer.drain()
            return
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view[:CHUNK]) :]
            await self._flush()

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            self._writer.write(data)
        await self._writer.drain()

    # Ending ---------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Say goodbye and send nothing more; reading goes on."""
        await self._goodbye()
        with suppress(OSError):
            await self._writer.drain()
            if self._writer.can_write_eof():
                self._writer.write_eof()

    async def close(self) -> None:
        """Say goodbye and hang up."""
        if self.end is not End.RESET:
            await self._goodbye()
        await self._hang_up()

    async def cut(self) -> None:
        """Hang up without close_notify; on clear text this is an ordinary close."""
        await self._hang_up()

    async def reset(self) -> None:
        """Hang up with RST, so that the peer's next read fails."""
        sock = self._writer.get_extra_info("socket")
        if sock is not None:
            # Linger for zero seconds: the kernel answers with RST instead of FIN.
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        await self._gone()

    async def drop(self) -> None:
        """Let go at once, whatever is under way."""
        self._writer.transport.abort()
        await self._gone()

    async def _goodbye(self) -> None:
        if self._tls and self.end is not End.BROKEN:
            # A peer that has not said goodbye yet leaves unwrap() wanting more; ours is out by then.
            with suppress(ssl.SSLError, OSError):
                self._tls.unwrap()
        with suppress(OSError):
            await self._flush()

    async def _hang_up(self) -> None:
        self._writer.close()
        await self._gone()

    async def _gone(self) -> None:
        with suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._writer.is_closing():
            await self.close()
