"""What every upstream of the lab is: a listener on loopback that remembers each connection it got.

A port is chosen by the kernel. Leaving the `async with` ends every connection at once, so a test that
failed leaves nothing behind. A mistake in a handler is kept and raised on leaving, not swallowed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from weakref import WeakKeyDictionary

from tests.proxy.lab.channel import Channel, EndedError, Reader

LOOPBACK = "127.0.0.1"


@dataclass(slots=True)
class Link:
    """One connection, as the upstream saw it."""

    number: int
    sni: str | None = None
    alpn: str | None = None
    failure: str = ""
    """Why the TLS handshake failed; empty when it did not."""
    established: bool = False
    """The handshake is done (at once on clear text)."""
    closed: bool = False
    heads: list[bytes] = field(default_factory=list)
    """Every request head, byte for byte."""


class Upstream:
    """Accepts, shakes hands, notes; `serve` is what a kind of upstream adds."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.links: list[Link] = []
        self.released = asyncio.Event()
        """What a stalling handler waits for."""
        self.keeps_log = True
        """False for an upstream that serves millions of requests."""
        self._tls = tls
        self._port = 0
        self._names: WeakKeyDictionary[ssl.SSLObject | ssl.SSLSocket, str | None] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._mistakes: list[Exception] = []
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Condition()
        if tls:
            tls.sni_callback = self._note_sni

    async def serve(self, link: Link, channel: Channel) -> None:
        """Talk on one connection until it ends."""
        raise NotImplementedError

    def note(self, mistake: Exception) -> None:
        """Keep what a handler did wrong, to be raised when the lab is left."""
        self._mistakes.append(mistake)

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something that shows in what the upstream has noted."""
        async with self._changed:
            await self._changed.wait_for(happened)

    async def changed(self) -> None:
        """Wake those who wait in `until`."""
        async with self._changed:
            self._changed.notify_all()

    @property
    def port(self) -> int:
        if self._server is None:
            raise RuntimeError("the upstream is not listening: enter it with `async with`")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def authority(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def established(self) -> list[Link]:
        """The connections whose handshake was completed."""
        return [link for link in self.links if link.established]

    def on(self, port: int) -> Self:
        """Listen on this port instead of one chosen by the kernel."""
        self._port = port
        return self

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, LOOPBACK, self._port, backlog=1024)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._mistakes:
            raise ExceptionGroup("an upstream of the lab is wrong", self._mistakes)

    # One connection -------------------------------------------------------------------------------

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = Reader()

        def arrived(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._run(Channel(reader, writer)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return asyncio.StreamReaderProtocol(reader, arrived)

    async def _run(self, channel: Channel) -> None:
        link = Link(number=len(self.links))
        if self.keeps_log:
            self.links.append(link)
        try:
            if await self._established(link, channel):
                await self.serve(link, channel)
        except (EndedError, OSError):
            pass  # the peer left, which is its right
        except Exception as mistake:  # noqa: BLE001 - kept, and raised when the lab is left
            self.note(mistake)
        finally:
            with suppress(OSError):
                await channel.drop()
            link.closed = True
            await self.changed()

    async def _established(self, link: Link, channel: Channel) -> bool:
        if self._tls:
            try:
                await channel.to_tls(self._tls, server_side=True)
            except OSError as error:
                link.failure = getattr(error, "reason", None) or type(error).__name__
                return False
            finally:
                link.sni = self._names.get(channel.tls) if channel.tls else None
        link.alpn = channel.alpn
        link.established = True
        await self.changed()
        return True

    def _note_sni(self, tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        self._names[tls] = name
