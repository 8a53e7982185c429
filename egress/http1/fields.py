"""Header fields: read from a block, stripped for the next connection, kept out of trailers, checked.

One pattern reads every field of a block in one pass. It is anchored to line starts and each match
ends with its line, so as many matches as lines means that no line was skipped. The reason is looked
for only when the count is wrong. This module must not judge a message: `heads` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from egress.errors import WireError
from egress.http1.grammar import CANONICAL_BLOCK, FIELD_LINE, STRAY_BYTE, TOKEN
from egress.types import Headers

# Servers that pass fields on as CGI variables fold these spellings into the framing names.
LOOKALIKE_FIELDS: Final = frozenset(
    name.replace("-", mark) for name in ("content-length", "transfer-encoding") for mark in "!#$%&'*+.^_`|~"
)

_BLANK_BEFORE_COLON: Final = re.compile(r"^[^:\s]++[ \t]++:", re.MULTILINE)
_FOLDED_LINE: Final = re.compile(r"^[ \t]", re.MULTILINE)

# Eighteen digits fit a signed 64-bit number everywhere behind us. A leading zero is read as octal by some.
_LENGTH_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,17}+")

MAX_KEPT_CHARS: Final = 4096
"""Characters of a block up to which it is kept to know it again: a connection keeps one while it is idle."""


class ReadFields(tuple[tuple[str, str], ...]):  # noqa: SLOT001 - a tuple has no room for slots
    """Fields with a lower-case token for a name and a value that ends no line; only `read_fields` makes them.

    A slice, a sum or a changed copy of them is a plain tuple again, and has to be checked again.
    """

    by_name: dict[str, str]
    """The same fields as a mapping; the last of equal names wins."""
    text: str
    """The block they were read from; empty if it was too long to keep."""
    lines: str
    """The block with names in lower case; empty until it is asked for."""
    kept: dict[frozenset[str], Headers | None]
    """The fields without certain names, by these names: heads of one connection repeat themselves. None for
    all of them: fields that hold themselves would have to wait for the garbage collector."""


def read_fields(
    text: str, start: int, limit: int, before: ReadFields | None = None
) -> tuple[ReadFields, dict[str, str]]:
    """Read the fields of `text` from `start` through the empty line that ends it.

    Returns the pairs in order, and the same as a mapping (the last of equal names wins).
    `before` are fields that were read earlier with this limit: the same text is not read twice.
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


def read_length(text: str) -> int:
    """Read the value of Content-Length."""
    if _LENGTH_NUMBER.fullmatch(text) is None:
        raise WireError("Content-Length is not a plain number.")
    return int(text)


def refuse_repeated(headers: Headers, mapping: Mapping[str, str], names: tuple[str, ...]) -> None:
    """Raise WireError where one of `names` occurs more than once."""
    if len(mapping) == len(headers):
        return
    present = [name for name, _ in headers]
    for name in names:
        if present.count(name) > 1:
            raise WireError("A field that must occur once is repeated.", "Send each framing field once.")


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
        return WireError("An empty line precedes the message.")
    found = STRAY_BYTE.search(block, start, len(block) if end is None else end)
    if found is None:
        return None
    if found[0] in (b"\r", b"\n"):
        return WireError("A line ends in a bare CR or LF.", "End every line with CR LF.")
    return WireError("The head contains a control byte.")


# The search for the empty line goes on where it stopped, so a block that comes in byte by byte costs no
# more than its length. Stray bytes are refused on arrival, so that a client of another protocol is told at
# once. A refusal depends on the bytes alone and never on how they were cut: a fault counts only inside the
# first `limit` bytes, and before the empty line.
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
        # The search starts one byte back: a CR waits for the byte behind it.
        fault = find_fault(self._buffer, max(0, before - 1), self._limit)
        if fault is not None:
            raise fault
        if len(self._buffer) >= self._limit:
            if self._of_request and b"\n" not in self._buffer[: self._limit]:
                raise WireError("The request target is too long.", "Send a shorter URL.", status=414)
            raise WireError("The header fields are too large.", "Send fewer or shorter fields.", status=431)


# Hop-by-hop fields do not travel: Connection and every field it nominates, Keep-Alive, TE,
# Transfer-Encoding, Upgrade, HTTP2-Settings, and every name that begins with `proxy-`.
#
# - Framing, closing and upgrading are arguments of the writers, which spell these fields themselves
#   and refuse them among the headers. A head that was not stripped can therefore not be sent.
# - TE is dropped, `trailers` included: it would have to be nominated again for the next connection,
#   and what it asks for is permission that senders of trailers do not wait for.
# - Expect is dropped: the writers add it where the caller asks for it.
# - Trailer stays. It describes the message, and the trailers it announces are checked on arrival.

# The writers refuse these among the headers they are given: they alone spell them.
CONNECTION_FIELDS: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade", "expect"}
)
HOP_BY_HOP_FIELDS: Final = CONNECTION_FIELDS | {"http2-settings"}

# Nominating one of these would make us drop what routes or frames the message.
_NEVER_NOMINATED_FIELDS: Final = frozenset({"host", "content-length"})

_COMMON_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    value: (value.lower(),) for value in ("keep-alive", "Keep-Alive", "close", "Close", "upgrade", "Upgrade")
}


def connection_options(headers: Headers, fields: Mapping[str, str]) -> tuple[str, ...]:
    """Return what Connection lists, lower case and in order; `fields` are the same headers by name.

    Raises WireError where an element is no token, or nominates Host or Content-Length.
    """
    value = fields.get("connection")
    if value is None:
        return ()
    if value in _COMMON_OPTIONS and len(fields) == len(headers):
        return _COMMON_OPTIONS[value]
    options = tuple(_elements([value for name, value in headers if name == "connection"]))
    for option in options:
        if TOKEN.fullmatch(option) is None:
            raise WireError("The Connection field is malformed.")
        if option in _NEVER_NOMINATED_FIELDS:
            raise WireError("The Connection field nominates Host or Content-Length.")
    return options


def upgrade_protocols(headers: Headers, options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the protocols of Upgrade, lower case; none where Connection does not nominate it."""
    if "upgrade" not in options:
        return ()
    protocols = tuple(_elements([value for name, value in headers if name == "upgrade"]))
    for protocol in protocols:
        name, slash, version = protocol.partition("/")
        if TOKEN.fullmatch(name) is None or (slash and TOKEN.fullmatch(version) is None):
            raise WireError("The Upgrade field is malformed.")
    return protocols


def strip_hop_by_hop(headers: Headers) -> Headers:
    """Return the fields that travel on: no hop-by-hop field, and none that Connection nominates.

    Call it before anything is injected: a sandbox that nominates `authorization` then takes away
    only its own value. Raises WireError where Connection is malformed.
    """
    return without_fields(headers, names_to_strip(headers, dict(headers)))


def names_to_strip(
    headers: Headers, fields: Mapping[str, str], gone: frozenset[str] = HOP_BY_HOP_FIELDS
) -> frozenset[str]:
    """Return the names of all fields that do not travel on; `fields` are the same headers by name.

    `gone` are those that never do. Raises WireError where Connection is malformed.
    """
    nominated = connection_options(headers, fields)
    if not gone.issuperset(nominated):
        gone = gone.union(nominated)
    if "proxy-" in "\n".join(fields):
        gone = gone.union([name for name in fields if name.startswith("proxy-")])
    return gone


def without_fields(headers: Headers, gone: frozenset[str]) -> Headers:
    """Return the fields whose names are not among `gone`."""
    return tuple([field for field in headers if field[0] not in gone])


def _elements(values: list[str]) -> list[str]:
    elements = [element.strip(" \t").lower() for value in values for element in value.split(",")]
    return [element for element in elements if element]


# A trailer must not frame, route, authenticate, set cookies, or say how to read the content. A request
# with such a trailer is refused: it tries to slip a field past the decision on the head. In a response
# the trailer is dropped: the body has gone through already, and a sloppy server should not break the
# download. The receiver never sees it either way.
FORBIDDEN_FIELDS: Final = (
    HOP_BY_HOP_FIELDS
    | LOOKALIKE_FIELDS
    | {"content-length", "trailer", "host", "max-forwards", "cache-control", "pragma", "range", "location"}
    | {"if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"}
    | {"authorization", "www-authenticate", "authentication-info", "cookie", "set-cookie", "set-cookie2"}
    | {"content-encoding", "content-type", "content-range", "content-location", "content-disposition"}
)


def is_forbidden(name: str) -> bool:
    """Tell whether a field of this (lower-case) name must not stand in a trailer."""
    return name in FORBIDDEN_FIELDS or name.startswith("proxy-")


def read_trailers(block: bytes, limit: int, *, of_request: bool) -> Headers:
    """Read a trailer section from `block`, which ends with its empty line."""
    headers, _ = read_fields(block.decode("latin-1"), 0, limit)
    kept = tuple([field for field in headers if not is_forbidden(field[0])])
    if of_request and len(kept) != len(headers):
        raise WireError("A trailer field belongs in the head.", "Send it before the body.")
    return kept


# Rules and searches must not depend on the parser that has run: names are lower-case tokens, so that a
# comparison cannot be missed by spelling, and no value can end its line. Our own reader of HTTP/1.1 proves
# this with the type it returns (`ReadFields`). Fields from the HTTP/2 library, and fields that were taken
# apart and put together again, are checked here.


def _text(headers: Headers) -> str:
    return "".join([f"{name}: {value}\r\n" for name, value in headers]) + "\r\n"


def _checked_text(headers: Headers) -> str:
    text = _text(headers)
    # As many lines as fields: a value may hold what reads as a well-formed line of its own.
    if CANONICAL_BLOCK.fullmatch(text) is None or text.count("\n") != len(headers) + 1:
        raise WireError("A header field has an invalid name or value.")
    return text


class CheckedFields:
    """Checked fields. The mapping and the text made for the check answer the questions that follow."""

    __slots__ = ("_by_name", "_headers", "_text", "length")

    def __init__(self, headers: Headers) -> None:
        """Raise WireError for a name or value that is none, a length that is no plain number, or two."""
        self._headers = headers
        if type(headers) is ReadFields:
            self._text = ""
            self._by_name = headers.by_name
        else:
            self._text = _checked_text(headers)
            self._by_name = dict(headers)
        self.length: int | None = None
        """The value of Content-Length, or None."""
        if "content-length" in self._by_name:
            stated = self.values("content-length")
            if len(stated) > 1:
                raise WireError("Content-Length is repeated.")
            self.length = read_length(stated[0])

    @property
    def text(self) -> str:
        """The fields as they stand on the wire, so that one search covers every name and value."""
        headers = self._headers
        if type(headers) is not ReadFields:
            return self._text
        if not headers.lines:
            headers.lines = _text(headers)
        return headers.lines

    def values(self, name: str) -> list[str]:
        """Return the values of every field of this name."""
        if len(self._by_name) == len(self._headers):
            return [self._by_name[name]] if name in self._by_name else []
        return [value for each, value in self._headers if each == name]

    def has_any(self, names: frozenset[str]) -> bool:
        """Tell whether the head has a field of one of these names."""
        return not names.isdisjoint(self._by_name)

    def has_prefix(self, prefix: str) -> bool:
        """Tell whether the head has a field whose name begins with `prefix`."""
        names = "\n".join(self._by_name)
        return names.startswith(prefix) or f"\n{prefix}" in names

    def end_to_end(self, gone: frozenset[str] = HOP_BY_HOP_FIELDS) -> Headers:
        """Return the fields that travel on; see `strip_hop_by_hop`, whose WireError this raises.

        `gone` are the names that never travel.
        """
        headers = self._headers
        if type(headers) is not ReadFields:
            return self._without(gone)
        if gone not in headers.kept:
            left = self._without(gone)
            headers.kept[gone] = None if left is headers else left
        kept = headers.kept[gone]
        return headers if kept is None else kept

    def _without(self, gone: frozenset[str]) -> Headers:
        gone = names_to_strip(self._headers, self._by_name, gone)
        return without_fields(self._headers, gone) if self.has_any(gone) else self._headers
