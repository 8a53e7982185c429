r"""A client that sends bytes as they are: to an upstream, through CONNECT, or straight at a proxy.

    async with await connect(upstream_address, "api.test", certs.trust(), proxy=proxy_address) as peer:
        response = await peer.request(b"GET /echo HTTP/1.1\r\nhost: api.test\r\n\r\n")

It adds nothing, corrects nothing and follows nothing.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Self

from tests.proxy.lab.channel import Channel, EndedError
from tests.proxy.lab.http1 import Digest, Message, Response, body_parts, read_head
from tests.proxy.lab.server import LOOPBACK

KEEP = 64 * 1024 * 1024


class RefusedError(Exception):
    """The proxy answered CONNECT with something else than 2xx."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"{response.start}: {response.body[:200]!r}")
        self.response = response


class Peer:
    """A connection on which HTTP/1.1 is spoken."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    async def send(self, data: bytes) -> None:
        await self.channel.send(data)

    async def request(self, data: bytes) -> Response:
        """Send a request, body included, and read its response."""
        await self.send(data)
        return await self.response(data.split(b" ", 1)[0].decode("latin-1"))

    async def get(self, target: str, host: str, extra: str = "") -> Response:
        """GET with a host and lines of `extra`, each ended by CR LF."""
        return await self.request(f"GET {target} HTTP/1.1\r\nhost: {host}\r\n{extra}\r\n".encode("latin-1"))

    async def pipeline(self, *requests: bytes) -> list[Response]:
        """Send all requests at once, then read all responses."""
        await self.send(b"".join(requests))
        return [await self.response(data.split(b" ", 1)[0].decode("latin-1")) for data in requests]

    async def response(self, method: str = "GET", keep: int = KEEP) -> Response:
        """Read one final response and the 1xx before it; `body` holds the first `keep` bytes.

        A body that does not come to its stated end leaves `complete` False.
        """
        response = await self.head()
        digest = Digest(keep)
        if not _bodiless(method, response.status):
            with suppress(EndedError):
                async for part in body_parts(self.channel, response, to_the_end=True):
                    digest.add(part)
        else:
            response.complete = True
        response.body = bytes(digest.start)
        response.size, response.digest = digest.size, digest.hexdigest()
        return response

    async def head(self) -> Response:
        """Read the head of the next final response; the body is left to the caller."""
        before: list[Message] = []
        while True:
            start, fields, raw = await read_head(self.channel)
            response = Response(start, fields, raw)
            if response.status == 101 or response.status >= 200:
                response.informational = before
                return response
            before.append(response)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.__aexit__()


def _bodiless(method: str, status: int) -> bool:
    return method == "HEAD" or status in {101, 204, 304} or (method == "CONNECT" and status < 300)


def at(port: int) -> tuple[str, int]:
    """The loopback address with this port."""
    return LOOPBACK, port


async def dial(address: tuple[str, int], source: str = "") -> Peer:
    """A connection in clear text."""
    return Peer(await Channel.dial(*address, source))


async def connect(
    address: tuple[str, int],
    name: str,
    trust: ssl.SSLContext | None,
    *,
    proxy: tuple[str, int] | None = None,
    extra: str = "",
    sni: str | None = None,
    source: str = "",
) -> Peer:
    """Reach `name`, at `address` or through a proxy, with TLS on top unless `trust` is None.

    Through a proxy the CONNECT names `name` and the port of `address`; the proxy does the rest. `sni` is
    what TLS asks for where it differs from `name`. Raises RefusedError, ssl.SSLError, OSError.
    """
    peer = await dial(proxy or address, source)
    try:
        if proxy:
            await open_tunnel(peer, f"{name}:{address[1]}", extra)
        if trust:
            await peer.channel.to_tls(trust, sni or name)
    except BaseException:
        await peer.channel.drop()
        raise
    return peer


async def open_tunnel(peer: Peer, authority: str, extra: str = "") -> Response:
    """Send CONNECT and take the answer; RefusedError when it is not 2xx."""
    head = f"CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n{extra}\r\n"
    response = await peer.request(head.encode("latin-1"))
    if not 200 <= response.status < 300:
        raise RefusedError(response)
    return response
