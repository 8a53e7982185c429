"""Reading HTTP/1.1 leniently, byte for byte, for the lab's own server and client.

It must not be strict: a test wants to see what really came, mistakes included. It is no model of how to
read HTTP where it matters.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.proxy.lab.channel import Channel, End, EndedError

Fields = tuple[tuple[str, str], ...]


def parse_fields(lines: list[bytes]) -> Fields:
    """Header or trailer lines, names in lower case, folded lines joined."""
    found: list[tuple[str, str]] = []
    for line in lines:
        if line[:1] in b" \t" and found:
            name, value = found.pop()
            found.append((name, f"{value} {line.strip().decode('latin-1')}"))
            continue
        raw_name, _, value_bytes = line.partition(b":")
        found.append((raw_name.decode("latin-1").lower(), value_bytes.strip(b" \t").decode("latin-1")))
    return tuple(found)


def value(fields: Fields, name: str) -> str | None:
    """The first value of a field."""
    return next((value for key, value in fields if key == name), None)


@dataclass(slots=True)
class Message:
    """A request or a response: its head as it came, and what followed."""

    start: str
    fields: Fields
    raw: bytes
    """The head with its empty line."""
    body: bytes = b""
    trailers: Fields = ()
    complete: bool = False
    """The body has come to its stated end."""

    def header(self, name: str) -> str | None:
        return value(self.fields, name)

    def headers(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]


@dataclass(slots=True)
class Request(Message):
    """What an upstream received."""

    link: int = 0
    """The number of the connection it came on."""
    size: int = 0
    digest: str = ""
    """SHA-256 of the whole body, also where `body` keeps only its beginning."""

    @property
    def method(self) -> str:
        return self.start.split(" ", 1)[0]

    @property
    def target(self) -> str:
        return [*self.start.split(" ", 2), ""][1]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass(slots=True)
class Response(Message):
    """What a client received."""

    informational: list[Message] = field(default_factory=list)
    """1xx responses that came first."""
    size: int = 0
    digest: str = ""
    """SHA-256 of the whole body."""

    @property
    def status(self) -> int:
        return int(self.start.split(" ", 2)[1])

    @property
    def reason(self) -> str:
        return [*self.start.split(" ", 2), ""][2]


async def read_head(channel: Channel) -> tuple[str, Fields, bytes]:
    """The start line, the fields, and the bytes of both."""
    raw = await channel.until(b"\r\n")
    lines = []
    # Line by line: a head may consist of its start line alone.
    while (line := await channel.until(b"\r\n")) != b"\r\n":
        lines.append(line[:-2])
        raw += line
    return raw[: raw.index(b"\r\n")].decode("latin-1"), parse_fields(lines), raw + b"\r\n"


async def body_parts(channel: Channel, message: Message, *, to_the_end: bool) -> AsyncIterator[bytes]:
    """The body in pieces, as its framing says; `to_the_end` is what no framing means."""
    if "chunked" in (message.header("transfer-encoding") or "").lower():
        async for part in _chunks(channel, message):
            yield part
    elif (length := message.header("content-length")) is not None:
        left = int(length)
        while left:
            if not (part := await channel.some(min(left, 65536))):
                raise EndedError(f"{left} bytes of the body are missing ({channel.end})")
            left -= len(part)
            yield part
    elif to_the_end:
        while part := await channel.some():
            yield part
    message.complete = channel.end in {End.OPEN, End.CLEAN}


async def _chunks(channel: Channel, message: Message) -> AsyncIterator[bytes]:
    while size := int((await channel.until(b"\r\n")).split(b";")[0], 16):
        yield await channel.exactly(size)
        await channel.exactly(2)
    lines = []
    while (line := await channel.until(b"\r\n")) != b"\r\n":
        lines.append(line[:-2])
    message.trailers = parse_fields(lines)


class Digest:
    """Counts and hashes a body, and keeps its beginning."""

    def __init__(self, keep: int) -> None:
        self._hash = hashlib.sha256()
        self._keep = keep
        self.size = 0
        self.start = bytearray()

    def add(self, part: bytes) -> None:
        self._hash.update(part)
        self.size += len(part)
        self.start += part[: max(0, self._keep - len(self.start))]

    def hexdigest(self) -> str:
        return self._hash.hexdigest()
