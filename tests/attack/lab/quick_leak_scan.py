"""A quick look for secrets, before the close one of `leaks`: pieces of them in every form, in one pass.

It suspects too much, and must miss no run that comes in one coat: content codings, chunks and percent are
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
from urllib.parse import quote, unquote_to_bytes

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import zstandard
from ahocorasick_rs import BytesAhoCorasick, Implementation

from tests.attack.lab.leak_detector import RUN

_CHUNK: Final = re.compile(rb"\r\n[0-9a-fA-F]{1,8}(?:;[^\r\n]*)?\r\n")
_MARKS: Final = ((b"\x1f\x8b\x08", 31), (b"\x78\x9c", 15))
_MOST: Final = 1 << 20
_PIECE: Final = 10
"""Bytes of a secret that make it suspected. More than what the secrets of the lab have in common."""


class QuickLeakScan:
    """Looks for some secrets."""

    def __init__(self, values: Iterable[bytes]) -> None:
        looks = {look for value in values for look in (value, value[::-1], value.upper(), value.lower())}
        # Capitals and small letters that are mixed are found once all of the data is small.
        needles = {form for look in looks for piece in _pieces(look) for form in _forms(piece)}
        self._needles = BytesAhoCorasick(sorted(needles), implementation=Implementation.DFA)

    def suspects(self, data: bytes) -> bool:
        """Whether a closer look is worth it."""
        return any(self._has(view) or self._has(view.lower()) for view in _views(data))

    def _has(self, data: bytes) -> bool:
        return bool(self._needles.find_matches_as_indexes(data))


def _pieces(value: bytes) -> Iterator[bytes]:
    """So many that each run holds one of them whole, wherever it begins."""
    for at in range(0, len(value) - _PIECE + 1, RUN - _PIECE + 1):
        yield value[at : at + _PIECE]


def _forms(piece: bytes) -> Iterator[bytes]:
    """A piece in all forms. In base64 it is what no neighbour changes."""
    yield piece
    yield piece.hex().encode()
    yield piece.hex().upper().encode()
    for each in ("%%%02X", "%%%02x", "\\u00%02x", "\\x%02x"):
        yield b"".join(each.encode() % byte for byte in piece)
    yield quote(piece, safe="").encode()
    yield html.escape(piece.decode("latin-1")).encode()
    for skip in range(3):
        core = base64.b64encode(b"\0" * skip + piece)[-(-8 * skip // 6) : 8 * (skip + len(piece)) // 6]
        yield core
        yield core.replace(b"+", b"-").replace(b"/", b"_")


def _views(data: bytes) -> Iterator[bytes]:
    yield data
    bare = _CHUNK.sub(b"", data)
    if bare != data:
        yield bare
    for each in {data, bare}:
        if b"%" in each:
            yield unquote_to_bytes(each)
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
