"""One request at an upstream, as a handler sees it: what was asked, and means to answer it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs

from tests.proxy.lab.channel import Channel
from tests.proxy.lab.http1 import Digest, Request, body_parts
from tests.proxy.lab.server import Link

# What the log keeps of each body.
MAX_KEPT_BYTES = 1024 * 1024

Extra = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class UpstreamRequest:
    request: Request
    channel: Channel
    link: Link
    over: bool = False
    """The connection is of no further use."""

    # Asked ----------------------------------------------------------------------------------------

    def parameter(self, name: str, default: str) -> str:
        found = parse_qs(self.request.target.partition("?")[2], keep_blank_values=True)
        return found.get(name, [default])[0]

    def number(self, name: str, default: int) -> int:
        return int(self.parameter(name, str(default)))

    @property
    def authorization(self) -> str:
        """What arrived as credential; "none" without one, so that a reflection is never empty."""
        return self.request.header("authorization") or "none"

    async def body(self) -> bytes:
        """The request's body, read once; of a long one its beginning. Answers `Expect` first."""
        request = self.request
        if not request.complete:
            if (request.header("expect") or "").lower() == "100-continue":
                await self.channel.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            digest = Digest(MAX_KEPT_BYTES)
            async for part in body_parts(self.channel, request, to_the_end=False):
                digest.add(part)
            request.body, request.size = bytes(digest.start), digest.size
            request.digest = digest.hexdigest()
        return request.body

    # Answered -------------------------------------------------------------------------------------

    async def begin(self, status: str, extra: Extra = (), kind: str = "text/plain") -> None:
        """Send a head; what frames the body must be among `extra`."""
        lines = [f"HTTP/1.1 {status}", f"content-type: {kind}"]
        lines += [f"{name}: {text}" for name, text in extra]
        await self.channel.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def answer(
        self, body: bytes, extra: Extra = (), status: str = "200 OK", kind: str = "text/plain"
    ) -> None:
        """Send a whole response with its length; the head alone to HEAD."""
        await self.begin(status, (*extra, ("content-length", str(len(body)))), kind)
        if self.request.method != "HEAD":
            await self.channel.send(body)

    async def chunk(self, data: bytes, extension: bytes = b"") -> None:
        await self.channel.send(b"%x%s\r\n%s\r\n" % (len(data), extension, data))

    async def end_chunks(self, trailers: Extra = ()) -> None:
        lines = "".join(f"{name}: {text}\r\n" for name, text in trailers)
        await self.channel.send(b"0\r\n" + lines.encode("latin-1") + b"\r\n")
