r"""An HTTP/1.1 upstream with byte-exact control: scripts for chosen paths, and ready handlers for the rest.

    async with RawUpstream(certs.good("api.test")) as upstream:
        upstream.script("/lie", Say(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfour"), Cut())

A script says exactly the bytes it holds. The ready handlers are in `handlers`.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from tests.proxy.lab.channel import Channel
from tests.proxy.lab.handlers import HANDLERS, Handler, locked, missing
from tests.proxy.lab.http1 import Request, read_head
from tests.proxy.lab.server import Link, Upstream
from tests.proxy.lab.upstream_request import UpstreamRequest


@dataclass(frozen=True, slots=True)
class Say:
    """Send these bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Drip:
    """Send these bytes one write at a time, `size` bytes each."""

    data: bytes
    size: int = 1


@dataclass(frozen=True, slots=True)
class ReadBody:
    """Read the request's body first; without this a script answers as soon as the head is there."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Do nothing until `upstream.released` is set, or the client leaves."""


@dataclass(frozen=True, slots=True)
class Close:
    """Say goodbye and hang up."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Hang up without close_notify."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Hang up with RST."""


Step = Say | Drip | ReadBody | Stall | Close | Cut | Reset


class RawUpstream(Upstream):
    """Answers by script where there is one for the path, else by handler, else 404.

    `wants` is the one credential that is let in, as the whole value of Authorization; anything else is
    answered 401. Empty, it lets in everybody.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, wants: str = "") -> None:
        super().__init__(tls)
        self._wants = wants
        self._handlers = dict(HANDLERS)
        self.requests: list[Request] = []
        """What came, in order of the heads; a body is filled in when it has been read."""
        self._scripts: dict[str, tuple[Step, ...]] = {}
        self._greeting: tuple[Step, ...] = ()

    def script(self, path: str, *steps: Step) -> None:
        """What to do about requests for a path; the connection stays open unless a step ends it."""
        self._scripts[path] = steps

    def handle(self, path: str, handler: Handler) -> None:
        """What answers requests for a path; a script for it goes before."""
        self._handlers[path] = handler

    def greet(self, *steps: Step) -> None:
        """What to do on every connection before a request has come."""
        self._greeting = steps

    async def serve(self, link: Link, channel: Channel) -> None:
        for step in self._greeting:
            if not await self._play(step, channel):
                return
        while await self._serve_one(link, channel):
            pass
        await channel.close()

    async def _serve_one(self, link: Link, channel: Channel) -> bool:
        start, fields, raw = await read_head(channel)
        request = Request(start, fields, raw, link=link.number)
        if self.keeps_log:
            link.heads.append(raw)
            self.requests.append(request)
            await self.changed()
        visit = UpstreamRequest(request, channel, link)
        path = request.path
        if self._wants and request.headers("authorization") != [self._wants]:
            await locked(visit)
        elif path in self._scripts:
            if not await self._follow(self._scripts[path], visit):
                return False
        else:
            await self._handlers.get(path, missing)(visit)
        if visit.over or (request.header("connection") or "").lower() == "close":
            return False
        await visit.body()
        return True

    async def _follow(self, steps: tuple[Step, ...], visit: UpstreamRequest) -> bool:
        for step in steps:
            if isinstance(step, ReadBody):
                await visit.body()
            elif not await self._play(step, visit.channel):
                return False
        return True

    async def _play(self, step: Step, channel: Channel) -> bool:
        """Do one step; whether the connection is still there."""
        match step:
            case Say(data):
                await channel.send(data)
            case Drip(data, size):
                for at in range(0, len(data), size):
                    await channel.send(data[at : at + size])
                    # Lets the peer read this piece before the next one.
                    await asyncio.sleep(0)
            case Stall():
                await channel.wait_or_end(self.released)
            case Close():
                await channel.close()
            case Cut():
                await channel.cut()
            case Reset():
                await channel.reset()
        return not isinstance(step, Close | Cut | Reset)
