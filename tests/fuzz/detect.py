"""Finds secrets fast: every run of them in every promised form, in one pass; the lab's detector confirms.

It may suspect too much and must miss nothing that the lab's would find whole: content codings and chunks are
taken off first, the rest is searched for as it would stand there.
"""

from __future__ import annotations

import base64
import html
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import quote

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import zstandard
from ahocorasick_rs import BytesAhoCorasick

from tests.attack.lab.leaks import CODINGS, RUN, Leak, leaks
from tests.fuzz.frames import H2Frame, WsFrame
from tests.fuzz.sample import Sample

_CHUNK: Final = re.compile(rb"\r\n[0-9a-fA-F]{1,8}(?:;[^\r\n]*)?\r\n")
_CODED: Final = re.compile(rb"\ncontent-encoding:", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\ncontent-length: ([0-9]{1,9})")
_SIZE: Final = re.compile(rb"([0-9a-f]{1,8})[^\r\n]*\r\n")
_MARKS: Final = ((b"\x1f\x8b\x08", 31), (b"\x78\x9c", 15))
_MOST: Final = 1 << 20
_COMPRESSED: Final = CODINGS - {"chunked"}


class Detector:
    """Looks for some secrets."""

    def __init__(self, secrets: Iterable[tuple[str, bytes]]) -> None:
        secrets = list(secrets)
        self._secrets = secrets
        self._sizes = {name: len(value) for name, value in secrets}
        needles = {run for _, value in secrets for run in _runs(value)}
        self._needles = BytesAhoCorasick(sorted(needles))

    def suspects(self, data: bytes) -> bool:
        """Whether a closer look is worth it."""
        return any(self._has(view) for view in _views(data))

    def promised(self, data: bytes, *, is_cut: bool = False) -> list[Leak]:
        """What must not be there. `is_cut`: whoever sent it may have cut a secret in two by itself."""
        if not self.suspects(data):
            return []
        is_coded = any(self.suspects(body) for body in _coded_bodies(data))
        return [
            leak
            for leak in leaks(data, self._secrets)
            if leak.promised
            # What is compressed without saying so is not looked through, by a stated limit.
            and (is_coded or not _COMPRESSED.intersection(leak.coats))
            and not (is_cut and leak.size < self._sizes[leak.secret])
        ]

    def _has(self, data: bytes) -> bool:
        return bool(self._needles.find_matches_as_indexes(data))


def _coded_bodies(data: bytes) -> Iterator[bytes]:
    """Bodies whose own head names a coding; not what looks like a head inside of another body."""
    if not data.startswith(b"HTTP/1."):
        # Fields of HTTP/2, one a line, and the bodies behind an empty one.
        fields, _, bodies = data.partition(b"\n\n")
        if _CODED.search(fields):
            yield bodies
        return
    rest = data
    while rest.startswith(b"HTTP/1."):
        head, _, rest = rest.partition(b"\r\n\r\n")
        if rest.startswith(b"HTTP/1."):
            continue
        after = _behind(head.lower(), rest)
        if _CODED.search(head):
            yield rest[: len(rest) - len(after)]
        rest = after


def _behind(head: bytes, rest: bytes) -> bytes:
    """What follows the body of this head."""
    if length := _LENGTH.search(head):
        return rest[int(length[1]) :]
    if b"\r\ntransfer-encoding: chunked" not in head:
        return b""
    while line := _SIZE.match(rest):
        size = int(line[1], 16)
        rest = rest[line.end() + size + 2 :] if size else rest[line.end() :].partition(b"\r\n")[2]
        if not size:
            return rest
    return b""


def is_cutting(sample: Sample) -> bool:
    """Whether a host of a sample lies about a length: what it says may then end anywhere."""
    for reply in sample.replies:
        if reply.framing in ("long", "short", "bare"):
            return True
        for part in reply.parts:
            if reply.framing == "websocket" and WsFrame.unpacked(part).size >= 0:
                return True
            if reply.framing == "http2" and H2Frame.unpacked(part).size >= 0:
                return True
    return False


def _runs(value: bytes) -> Iterator[bytes]:
    """All runs of a secret, in all forms. A run in base64 is what of it no neighbour changes."""
    for at in range(len(value) - RUN + 1):
        run = value[at : at + RUN]
        yield run
        yield run.hex().encode()
        yield run.hex().upper().encode()
        for each in ("%%%02X", "%%%02x", "\\u00%02x", "\\x%02x"):
            yield b"".join(each.encode() % byte for byte in run)
        yield quote(run, safe="").encode()
        yield html.escape(run.decode("latin-1")).encode()
        for skip in range(3):
            core = base64.b64encode(b"\0" * skip + run)[(8 * skip + 5) // 6 : -4]
            yield core
            yield core.replace(b"+", b"-").replace(b"/", b"_")


def _views(data: bytes) -> Iterator[bytes]:
    yield data
    bare = _CHUNK.sub(b"", data)
    if bare != data:
        yield bare
    for each in {data, bare}:
        yield from _unpacked(each)


def _unpacked(data: bytes) -> Iterator[bytes]:
    for mark, bits in _MARKS:
        at = data.find(mark)
        while at >= 0:
            with suppress(zlib.error):
                yield zlib.decompressobj(bits).decompress(data[at:], _MOST)
            at = data.find(mark, at + 1)
    at = data.find(b"\x28\xb5\x2f\xfd")
    while at >= 0:
        with suppress(zstandard.ZstdError):
            yield zstandard.ZstdDecompressor().decompressobj().decompress(data[at:])
        at = data.find(b"\x28\xb5\x2f\xfd", at + 1)
    if b"content-encoding: br" in data.lower():
        for found in re.finditer(rb"\r\n\r\n", data):
            with suppress(brotli.error):
                yield brotli.Decompressor().process(data[found.end() :])
