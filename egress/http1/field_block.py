"""A block of header fields: bytes to pairs, or a refusal.

One pattern reads every field of the block in one pass. It is anchored to line starts and each match
ends with its line, so as many matches as lines means that nothing was skipped. Only when the count
is wrong do we look for the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from egress.errors import WireError
from egress.http1.grammar import FIELD_LINE, STRAY_BYTE
from egress.types import Headers

# Servers that pass fields on as CGI variables fold these spellings into the framing names.
LOOKALIKE_FIELDS: Final = frozenset(
    name.replace("-", mark) for name in ("content-length", "transfer-encoding") for mark in "!#$%&'*+.^_`|~"
)

_BLANK_BEFORE_COLON: Final = re.compile(r"^[^:\s]++[ \t]++:", re.MULTILINE)
_FOLDED_LINE: Final = re.compile(r"^[ \t]", re.MULTILINE)

MAX_KEPT_CHARS: Final = 4096
"""Characters of a block up to which it is kept to know it again: a connection keeps one while it is idle."""


class ReadFields(tuple[tuple[str, str], ...]):  # noqa: SLOT001 - a tuple has no room for slots
    """Fields with a lower-case token for a name and a value that ends no line; only `read_fields` makes them.

    Whatever is made of them, a part, a sum or a changed copy, is a plain tuple again: it has to be
    checked like anything else.
    """

    by_name: dict[str, str]
    """The same as a mapping; the last of equal names wins."""
    text: str
    """What they were read from, where that is short enough to be kept."""
    lines: str
    """The same with names in lower case; empty until it is asked for."""
    kept: dict[frozenset[str], Headers]
    """What is left of them without certain names, as it was asked for; heads repeat themselves."""


def read_fields(
    text: str, start: int, limit: int, before: ReadFields | None = None
) -> tuple[ReadFields, dict[str, str]]:
    """Read the fields of `text` from `start` through the empty line that ends it.

    Returns the pairs in order, and the same as a mapping (the last of equal names wins).
    `before` are other fields that were read with this limit: the same text is not read twice.
    """
    block = text[start:]
    if before is not None and block == before.text:
        return before, before.by_name
    found = FIELD_LINE.findall(text, start)
    if len(found) != text.count("\n", start) - 1:
        raise diagnose(text, start)
    if len(found) > limit:
        raise WireError("There are too many header fields.", "Send fewer header fields.", status=431)
    if " \r\n" in text or "\t" in text:
        found = [(name, value.rstrip(" \t")) for name, value in found]
    headers = ReadFields([(name.lower(), value) for name, value in found])
    headers.by_name = mapping = dict(headers)
    headers.kept = {}
    headers.lines = ""
    headers.text = block if len(block) <= MAX_KEPT_CHARS else ""
    if not LOOKALIKE_FIELDS.isdisjoint(mapping):
        raise WireError("A field name imitates Content-Length or Transfer-Encoding.")
    return headers, mapping


def refuse_repeated(headers: Headers, mapping: Mapping[str, str], names: tuple[str, ...]) -> None:
    """Raise WireError where one of `names` occurs more than once."""
    if len(mapping) == len(headers):
        return
    present = [name for name, _ in headers]
    for name in names:
        if present.count(name) > 1:
            raise WireError("A field that must stand alone is repeated.", "Send each framing field once.")


def diagnose(text: str, start: int = 0) -> WireError:
    """Name what is wrong with a block that did not read."""
    stray = find_fault(text.encode("latin-1"))
    if stray is not None:
        return stray
    if _FOLDED_LINE.search(text, start):
        return WireError("A header field is folded over several lines.", "Send each field on one line.")
    if _BLANK_BEFORE_COLON.search(text, start):
        return WireError("A header name is followed by white space.")
    return WireError("A header line is malformed.")


def find_fault(block: bytes | bytearray, start: int = 0, end: int | None = None) -> WireError | None:
    """Look in `block` from `start` for what can be refused before the block is complete."""
    if block.startswith(b"\r\n"):
        # Tolerated bytes between messages would be a place for two parsers to disagree.
        return WireError("An empty line stands before the message.")
    found = STRAY_BYTE.search(block, start, len(block) if end is None else end)
    if found is None:
        return None
    if found[0] in (b"\r", b"\n"):
        return WireError("A line ends in a bare CR or LF.", "End every line with CR LF.")
    return WireError("A control byte stands outside the body.")


# Collecting a head, or a trailer section, that may arrive in any number of pieces.
#
# The search for the empty line goes on where it stopped, so a block that comes in byte by byte costs
# no more than its length. Stray bytes are refused on arrival: a client that speaks something else, or
# ends its lines wrongly, is told so at once instead of being waited for.
#
# What is refused, and why, depends on the bytes alone and never on how they were cut. For that, a
# fault counts only inside the first `limit` bytes, and before the empty line.
_BLOCK_END: Final = b"\r\n\r\n"


class BlockBuffer:
    """Gathers one block that ends with an empty line, of at most `limit` bytes."""

    __slots__ = ("_buffer", "_limit", "_of_request")

    def __init__(self, limit: int, *, of_request: bool = False) -> None:
        self._limit = limit
        self._of_request = of_request
        self._buffer = bytearray()

    @property
    def started(self) -> bool:
        """Some bytes of the block are here."""
        return bool(self._buffer)

    def take(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Add `data`; return the whole block and what follows it, or None while it is incomplete."""
        if not self._buffer:
            end = data.find(_BLOCK_END, 0, self._limit)
            if end >= 0:
                return data[: end + 4], data[end + 4 :]
        before = len(self._buffer)
        self._buffer += data
        end = self._buffer.find(_BLOCK_END, max(0, before - 3), self._limit)
        if end < 0:
            self._check(before)
            return None
        block, rest = bytes(self._buffer[: end + 4]), bytes(self._buffer[end + 4 :])
        self._buffer.clear()
        return block, rest

    def _check(self, before: int) -> None:
        """Refuse what cannot become a block any more."""
        # One byte back: a CR waits for the byte behind it.
        fault = find_fault(self._buffer, max(0, before - 1), self._limit)
        if fault is not None:
            raise fault
        if len(self._buffer) >= self._limit:
            if self._of_request and b"\n" not in self._buffer[: self._limit]:
                raise WireError("The request target is too long.", "Send a shorter URL.", status=414)
            raise WireError("The header fields are too large.", "Send fewer or shorter fields.", status=431)
