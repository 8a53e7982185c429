"""What a case is made of: values that can be written into a file of the corpus and played again.

A `Sample` says what a client sends and what the host behind answers. An answer is a `Reply` and not bytes,
because it shows the credential of its request in forms that exist only when the request has come.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import zstandard

from tests.attack.lab.hostile_handlers import BODIES
from tests.fuzz.frames import H2Frame, WsFrame

GIVEN: Final = re.compile(rb"\{\{([A-Za-z0-9-]+)\}\}")
"""`{{form}}` in a reply is the credential in that form."""

PROMISED: Final = ("plain", "upper", "base64", "base64-1", "base64-2", "base64url", "hex", "HEX", "percent")
FORMS: Final = (*PROMISED, "quoted", "json", "json-escaped", "html", "reversed")


def _deflate(data: bytes) -> bytes:
    return zlib.compress(data)


CODINGS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "deflate": _deflate,
    "br": brotli.compress,
    "zstd": zstandard.compress,
    "gzip, gzip": lambda data: gzip.compress(gzip.compress(data, mtime=0), mtime=0),
    "x-unknown": lambda data: gzip.compress(data, mtime=0),
}


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a host, in the pieces that a mutation may touch without cutting a credential in two."""

    head: bytes = b"HTTP/1.1 200 OK\r\n"
    """Interim heads, the status line and fields; neither framing nor the empty line."""
    parts: tuple[bytes, ...] = ()
    framing: str = "length"
    """One of `FRAMINGS`; `websocket` and `http2` where the parts are frames."""
    coding: str = ""
    tail: bytes = b""
    """Trailers, or what follows the message."""
    write: int = 0
    """Bytes in one write; 0 for all of it."""
    ends: str = "open"
    """What becomes of the connection: open, close, cut or reset."""

    def spoken(self, credential: bytes) -> bytes:
        """The bytes of it, for a request with this credential."""
        head = filled(self.head, credential)
        if self.framing == "websocket":
            frames = (WsFrame.unpacked(part) for part in self.parts)
            return (
                head
                + b"\r\n"
                + b"".join(each.wire(filled(each.data, credential), masked=False) for each in frames)
            )
        parts = [filled(part, credential) for part in self.parts]
        if self.coding:
            head += b"content-encoding: %s\r\n" % self.coding.encode("latin-1")
            if self.coding in CODINGS:
                parts = [CODINGS[self.coding](b"".join(parts))]
        return _FRAMINGS[self.framing](head, parts, filled(self.tail, credential))

    def frames(self, stream: int, credential: bytes) -> bytes:
        """The same as frames of HTTP/2, for a reply that is made of them."""
        made = (H2Frame.unpacked(part) for part in self.parts)
        return b"".join(each.wire(filled(each.data, credential), stream) for each in made)


def filled(template: bytes, credential: bytes) -> bytes:
    """Put the credential where the template says."""
    if b"{{" not in template:
        return template
    return GIVEN.sub(lambda found: BODIES.get(found[1].decode(), bytes)(credential), template)


def _sized(error: int) -> Callable[[bytes, list[bytes], bytes], bytes]:
    def write(head: bytes, parts: list[bytes], tail: bytes) -> bytes:
        body = b"".join(parts)
        return head + b"content-length: %d\r\n\r\n" % max(0, len(body) + error) + body + tail

    return write


def _chunks(parts: list[bytes], line: bytes = b"%x\r\n") -> bytes:
    return b"".join(line % len(part) + part + b"\r\n" for part in parts if part)


def _chunked(line: bytes, last: bytes = b"0\r\n") -> Callable[[bytes, list[bytes], bytes], bytes]:
    def write(head: bytes, parts: list[bytes], tail: bytes) -> bytes:
        return head + b"transfer-encoding: chunked\r\n\r\n" + _chunks(parts, line) + last + tail + b"\r\n"

    return write


def _both(head: bytes, parts: list[bytes], tail: bytes) -> bytes:
    extra = b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n"
    return head + extra + _chunks(parts) + b"0\r\n" + tail + b"\r\n"


def _bare(head: bytes, parts: list[bytes], tail: bytes) -> bytes:
    return head + b"\r\n" + b"".join(parts) + tail


_FRAMINGS: Final[dict[str, Callable[[bytes, list[bytes], bytes], bytes]]] = {
    "length": _sized(0),
    "short": _sized(-3),
    "long": _sized(50),
    "chunked": _chunked(b"%x\r\n"),
    "extended": _chunked(b'%X;a="b;c"\r\n'),
    "blank": _chunked(b"%x \r\n"),
    "no-last": _chunked(b"%x\r\n", b""),
    "bad-last": _chunked(b"%x\r\n", b"-0\r\n"),
    "both": _both,
    "bare": _bare,
}
FRAMINGS: Final = tuple(_FRAMINGS)


@dataclass(frozen=True, slots=True)
class Sample:
    """One case: where it belongs, what is sent in which pieces, and what is answered in which order."""

    target: str
    client: tuple[bytes, ...] = ()
    replies: tuple[Reply, ...] = ()
    words: tuple[str, ...] = ()
    """What else the target wants to know: a method, a host, a server name."""


# Files --------------------------------------------------------------------------------------------


def written(sample: Sample, why: str) -> str:
    """The text of a file of the corpus."""
    found = {"why": why, **asdict(sample)}
    return json.dumps(found, default=lambda data: bytes(data).decode("latin-1"), indent=1) + "\n"


def read(text: str) -> tuple[Sample, str]:
    """A sample of the corpus, and why it is kept."""
    found = json.loads(text)
    replies = (
        Reply(
            each["head"].encode("latin-1"),
            tuple(part.encode("latin-1") for part in each["parts"]),
            each["framing"],
            each["coding"],
            each["tail"].encode("latin-1"),
            each["write"],
            each["ends"],
        )
        for each in found["replies"]
    )
    client = tuple(piece.encode("latin-1") for piece in found["client"])
    return Sample(found["target"], client, tuple(replies), tuple(found["words"])), str(found["why"])
