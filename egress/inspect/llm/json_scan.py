"""Fields of a JSON object that streams by, without the rest of it.

An answer may be long, and only a few fields at its top say what it has used. So the text is scanned for
quotes and brackets; of all else only the wanted fields are kept. Where the answer is an array of objects,
as Gemini streams it, the fields are those of its objects, the last of each name.

The scan is no check: bytes that are no JSON lead to no fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from egress.inspect.strict_json import JsonFloat, JsonValue

MAX_SCANNED_FIELD_BYTES: Final = 64 * 1024
"""Bytes of a field that is kept; a longer one is as good as missing."""
_TOKEN: Final = re.compile(rb'[\[{]|[\]}]|"|,|:')
_INNER_TOKEN: Final = re.compile(rb'[\[{]|[\]}]|"')
_STRING_END: Final = re.compile(rb'["\\]')
_OPENERS: Final = b"[{"
_CLOSERS: Final = b"]}"


class JsonFieldScan:
    """Finds fields at the top of an object, or of each object of an array."""

    __slots__ = (
        "_base",
        "_depth",
        "_escape",
        "_in_string",
        "_is_key",
        "_kept",
        "_key",
        "_on_field",
        "_wanted",
        "size",
    )

    def __init__(self, wanted: frozenset[str], on_field: Callable[[str, JsonValue], None]) -> None:
        """`on_field` is called with each wanted field, in the order in which they come."""
        self._wanted = wanted
        self._on_field = on_field
        self._depth = 0
        self._base = 0
        """The depth at which the fields stand; 0 before the first bracket."""
        self._in_string = False
        self._escape = False
        self._is_key = False
        self._key: str | None = None
        self._kept: bytearray | None = None
        """The bytes of the key or of the wanted value that is read now."""
        self.size = 0

    def feed(self, data: bytes) -> None:
        """Scan the next bytes."""
        self.size += len(data)
        at = 0
        while at < len(data):
            at = self._string(data, at) if self._in_string else self._structure(data, at)

    def _string(self, data: bytes, at: int) -> int:
        """Scan on within a string; return where to go on."""
        if self._escape:
            self._escape = False
            self._keep(data[at : at + 1])
            return at + 1
        found = _STRING_END.search(data, at)
        end = len(data) if found is None else found.end()
        self._keep(data[at:end])
        if found is not None:
            self._escape = found[0] == b"\\"
            self._in_string = self._escape
        return end

    def _structure(self, data: bytes, at: int) -> int:
        """Scan on between strings; return where to go on."""
        is_top = self._depth <= self._base
        found = (_TOKEN if is_top else _INNER_TOKEN).search(data, at)
        if found is None:
            self._keep(data[at:])
            return len(data)
        self._keep(data[at : found.start()])
        token = found[0]
        if token == b'"':
            self._quote()
        elif token in (b"[", b"{"):
            self._open(token)
        elif token in (b"]", b"}"):
            self._close(token)
        elif self._depth == self._base and token == b":":
            self._colon()
        elif self._depth == self._base:
            self._end_value()
        return found.end()

    def _quote(self) -> None:
        self._in_string = True
        if self._depth == self._base and self._base and self._is_key and self._kept is None:
            self._kept = bytearray()
        self._keep(b'"')

    def _open(self, token: bytes) -> None:
        self._keep(token)
        self._depth += 1
        if not self._base:
            # The fields of an array's objects stand one level further in.
            self._base = 1 if token == b"{" else 2
            self._is_key = token == b"{"
        elif self._depth == self._base == 2:
            self._is_key = True

    def _close(self, token: bytes) -> None:
        if self._depth == self._base:
            self._end_value()
            self._is_key = False
        self._depth -= 1
        self._keep(token)

    def _colon(self) -> None:
        key = _value(self._kept)
        self._is_key = False
        self._key = key if isinstance(key, str) and key in self._wanted else None
        self._kept = None if self._key is None else bytearray()

    def _end_value(self) -> None:
        if self._key is not None and self._kept is not None:
            value = _value(self._kept)
            if value is not None:
                self._on_field(self._key, value)
        self._key = self._kept = None
        self._is_key = True

    def _keep(self, data: bytes) -> None:
        if self._kept is None or not data:
            return
        self._kept += data
        if len(self._kept) > MAX_SCANNED_FIELD_BYTES:
            self._key = self._kept = None


def _value(text: bytearray | None) -> JsonValue:
    """Return the value of a text; None also where it is no JSON."""
    try:
        return None if text is None else parse_json(bytes(text))
    except ValueError:
        return None


def parse_json(text: bytes) -> JsonValue:
    """Return the value of a small JSON text of a vendor. Raises ValueError."""
    try:
        value: JsonValue = json.loads(text, parse_float=JsonFloat, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _refuse_constant(text: str) -> JsonValue:
    raise ValueError(text)
