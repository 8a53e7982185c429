"""Finds a secret in bytes, whatever they went through on the way.

Any run of `RUN` bytes of it counts. Data is looked at as it is and through every coat that can be taken off:
content codings, chunks, base64 at each alignment, hexadecimal, percent, JSON and HTML escapes. In each view
the secret is also looked for reversed and with its case changed; all of it in capitals, or all of it in small
letters, is told apart from a mixture, which nobody promises to stop.

It sees more than Egress promises to stop: `promised` tells the two apart, as docs/security.md does.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import gzip
import hashlib
import html
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import zstandard

RUN: Final = 16
"""So many consecutive bytes of a secret are a leak."""
DEPTH: Final = 3
"""How many coats are taken off, one below the other."""
_MOST: Final = 64 * 1024 * 1024

CODINGS: Final = frozenset({"gzip", "deflate", "br", "zstd", "chunked"})
"""Coats of the transport: whoever looks at a response has them taken off."""
ESCAPES: Final = frozenset({"base64", "hex", "percent", "json", "html"})
"""Coats of the contents. One of them is looked through; base64 inside of another one, too."""
CASES: Final = frozenset({"upper", "lower"})
"""All of a secret in capitals, or in small letters; nothing around it."""
NOT_PROMISED: Final = frozenset({"reversed", "case", "mixed hex", "broken base64", "bz2"})


@dataclass(frozen=True, slots=True)
class Leak:
    """A piece of a secret, and what it was wrapped in."""

    secret: str
    coats: tuple[str, ...]
    size: int
    """How many bytes of it in a row."""

    @property
    def promised(self) -> bool:
        """Whether Egress says that it stops this one: whole, and in a coat that it looks through."""
        escapes = tuple(coat for coat in self.coats if coat not in CODINGS)
        return escapes in _STOPPED

    def __str__(self) -> str:
        return f"{self.size} bytes of {self.secret} ({' in '.join(reversed(self.coats)) or 'as they are'})"


_STOPPED: Final = frozenset(
    {()} | {(coat,) for coat in ESCAPES | CASES} | {(coat, "base64") for coat in ("percent", "json", "html")}
)


_known: Final[dict[bytes, tuple[Leak, ...]]] = {}
"""What was found in what: at its end, all that a proxy did is looked at again, and most of it is the same."""
_MOST_KNOWN: Final = 100_000


def leaks(data: bytes, secrets: Iterable[tuple[str, bytes]]) -> list[Leak]:
    """Every secret in the data, once for each way of seeing it; the longest run of each."""
    wanted = tuple(secrets)
    key = hashlib.blake2b(repr(wanted).encode() + b"\n" + data, digest_size=20).digest()
    if key not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = tuple(_leaks(data, wanted))
    return list(_known[key])


def _leaks(data: bytes, secrets: Iterable[tuple[str, bytes]]) -> list[Leak]:
    wanted = [(name, _Sought(value)) for name, value in secrets if len(value) >= RUN]
    found: dict[tuple[str, tuple[str, ...]], int] = {}
    for coats, view in _views(data):
        low, folded = None, None
        for name, sought in wanted:
            if size := sought.longest(view):
                found.setdefault((name, coats), size)
                continue
            low = view.lower() if low is None else low
            if size := sought.longest_folded(low):
                coat, size = sought.case_in(view) or ("case", size)
                found.setdefault((name, (*coats, coat)), size)
            folded = view[::-1] if folded is None else folded
            if size := sought.longest(folded):
                found.setdefault((name, (*coats, "reversed")), size)
    return [Leak(name, coats, size) for (name, coats), size in found.items()]


class _Sought:
    """A secret, cut into all its runs once."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._runs = [value[at : at + RUN] for at in range(len(value) - RUN + 1)]
        self._folded = [run.lower() for run in self._runs]
        # Each run holds one of these whole, wherever it begins: without any, nobody has to look further.
        half = RUN // 2
        self._marks = [value[at : at + half] for at in range(0, len(value) - half + 1, half + 1)]
        self._folded_marks = [mark.lower() for mark in self._marks]

    def longest(self, view: bytes) -> int:
        return self._measure(self._runs, view) if _any_in(self._marks, view) else 0

    def case_in(self, view: bytes) -> tuple[str, int] | None:
        """The case that the whole of it is in, with its length."""
        for coat, look in (("upper", self._value.upper()), ("lower", self._value.lower())):
            if look in view:
                return coat, len(look)
        return None

    def longest_folded(self, view: bytes) -> int:
        return self._measure(self._folded, view) if _any_in(self._folded_marks, view) else 0

    def _measure(self, runs: list[bytes], view: bytes) -> int:
        best = length = 0
        for run in runs:
            length = length + 1 if run in view else 0
            best = max(best, length)
        return best + RUN - 1 if best else 0


def _any_in(marks: list[bytes], view: bytes) -> bool:
    for mark in marks:  # noqa: SIM110 - a generator costs more than most views
        if mark in view:
            return True
    return False


# Coats --------------------------------------------------------------------------------------------


def _views(data: bytes) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """The data itself, and all that is inside of it; nothing twice."""
    seen = {data}
    waiting: list[tuple[tuple[str, ...], bytes]] = [((), data)]
    while waiting:
        coats, view = waiting.pop(0)
        yield coats, view
        if len(coats) == DEPTH:
            continue
        for coat, take_off in _COATS:
            for inner in take_off(view):
                if len(inner) >= RUN and inner not in seen:
                    seen.add(inner)
                    waiting.append(((*coats, coat), inner))


def _packed(mark: bytes, unpack: Callable[[bytes], bytes]) -> Callable[[bytes], Iterator[bytes]]:
    """Look for the beginning of something packed, anywhere, and unpack as much as there is."""

    def take_off(data: bytes) -> Iterator[bytes]:
        for match in re.finditer(re.escape(mark), data):
            with suppress(ValueError, OSError, EOFError, zlib.error, zstandard.ZstdError):
                if inner := unpack(data[match.start() :]):
                    yield inner

    return take_off


def _inflate(data: bytes, bits: int) -> bytes:
    return zlib.decompressobj(bits).decompress(data, _MOST)


def _zstandard(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


def _deflated(data: bytes) -> Iterator[bytes]:
    # Both kinds, at the places where a body can begin: the start, and after a head.
    for start in _starts(data):
        for bits in (15, -15):
            with suppress(zlib.error):
                if len(inner := _inflate(data[start:], bits)) > RUN:
                    yield inner


def _brotli(data: bytes) -> Iterator[bytes]:
    for start in _starts(data):
        unpacker = brotli.Decompressor()
        with suppress(brotli.error):
            if len(inner := unpacker.process(data[start:])) > RUN:
                yield inner


def _starts(data: bytes) -> list[int]:
    return [0, *(match.end() for match in re.finditer(rb"\r\n\r\n", data))][:64]


def _chunked(data: bytes) -> Iterator[bytes]:
    """Chunks put together, wherever a row of them begins."""
    for first in re.finditer(rb"(?:^|\r\n)(?=[0-9a-fA-F]{1,8}(?:;[^\r\n]*)?\r\n)", data):
        at, parts = first.end(), []
        while (line := _CHUNK.match(data, at)) and (size := int(line[1], 16)):
            parts.append(data[line.end() : line.end() + size])
            at = line.end() + size + 2
        if len(parts) > 1:
            yield b"".join(parts)


def _base64(data: bytes) -> Iterator[bytes]:
    for run in re.findall(rb"[A-Za-z0-9+/_-]{20,}", data):
        yield from _unpacked(run)


def _broken_base64(data: bytes) -> Iterator[bytes]:
    # From the beginning of a run alone, and never back: a long one is looked at once.
    lines = rb"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]++=*+\r?+\n){2,}+[A-Za-z0-9+/_-]*+"
    for run in re.findall(lines, data):
        yield from _unpacked(re.sub(rb"[=\r\n]", b"", run))


def _unpacked(run: bytes) -> Iterator[bytes]:
    text = run.replace(b"-", b"+").replace(b"_", b"/")
    for skip in range(4):
        part = text[skip:]
        with suppress(binascii.Error):
            yield base64.b64decode(part[: len(part) // 4 * 4])


def _hex(data: bytes, pattern: bytes) -> Iterator[bytes]:
    for run in re.findall(pattern, data):
        digits = re.sub(rb"[:\s]", b"", run)
        for skip in range(2):
            part = digits[skip:]
            yield bytes.fromhex(part[: len(part) // 2 * 2].decode())


def _one_case_hex(data: bytes) -> Iterator[bytes]:
    yield from _hex(data, rb"[0-9a-f]{32,}")
    yield from _hex(data, rb"[0-9A-F]{32,}")


def _mixed_hex(data: bytes) -> Iterator[bytes]:
    yield from _hex(data, rb"(?:[0-9a-fA-F][:\s]?){32,}")


def _percent(data: bytes) -> Iterator[bytes]:
    if b"%" in data:
        yield re.sub(rb"%([0-9a-fA-F]{2})", _byte, data)
        yield re.sub(rb"%([0-9a-fA-F]{2})", _byte, data.replace(b"+", b" "))


def _json(data: bytes) -> Iterator[bytes]:
    if b"\\" in data:
        plain = re.sub(rb"\\(?:u00|x)([0-9a-fA-F]{2})", _byte, data)
        yield re.sub(rb'\\(["\\/])', rb"\1", plain)


def _html(data: bytes) -> Iterator[bytes]:
    if b"&" in data:
        yield html.unescape(data.decode("latin-1")).encode("utf-8", "replace")


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)])


_CHUNK: Final = re.compile(rb"([0-9a-fA-F]{1,8})(?:;[^\r\n]*)?\r\n")
_COATS: Final[tuple[tuple[str, Callable[[bytes], Iterable[bytes]]], ...]] = (
    ("chunked", _chunked),
    ("gzip", _packed(gzip.compress(b"")[:3], lambda data: _inflate(data, 31))),
    ("zstd", _packed(b"\x28\xb5\x2f\xfd", _zstandard)),
    ("deflate", _deflated),
    ("br", _brotli),
    ("bz2", _packed(b"BZh", lambda data: bz2.BZ2Decompressor().decompress(data))),
    ("base64", _base64),
    ("broken base64", _broken_base64),
    ("hex", _one_case_hex),
    ("mixed hex", _mixed_hex),
    ("percent", _percent),
    ("json", _json),
    ("html", _html),
)
