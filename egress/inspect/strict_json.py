"""JSON in the one reading on which all readers agree; anything else is refused.

A body that two readers take differently is judged by one of them and obeyed by the other. Of a repeated key
most readers keep the last value and some the first; some compare keys before their escapes are read, some
after; NaN, a byte order mark and a lone surrogate are taken by some and refused by others. So all of these
are refused here.

The shape is checked before any value is made: depth and number of values are bounded, whatever the size is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MAX_JSON_DEPTH: Final = 64
MAX_JSON_VALUES: Final = 100_000
"""Values and keys in a body."""
MAX_INTEGER_DIGITS: Final = 64

_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)
"""A string, or one that never ends: without it, each quote in such a string would be tried to the end."""
_NOT_STRUCTURE: Final = re.compile(rb"[^\[\]{}]++")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_OPENERS: Final = frozenset(b"[{")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class JsonFloat:
    """A number with a fraction or an exponent, as it is written: readers round it differently."""

    text: str


JsonValue = None | bool | int | JsonFloat | str | list["JsonValue"] | dict[str, "JsonValue"]


class StrictJsonError(ValueError):
    """Bytes that are not JSON in the one reading. `code` says how."""

    def __init__(self, detail: str, code: str = "body.json") -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def read_strict_json(data: bytes) -> JsonValue:
    """Return the value of a body. Raises `StrictJsonError`, whose text is ours and never quotes the body."""
    if data.startswith(_BYTE_ORDER_MARK):
        raise StrictJsonError("it begins with a byte order mark")
    _check_shape(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise StrictJsonError("it is not UTF-8") from None
    try:
        value: JsonValue = _DECODER.decode(text)
    except StrictJsonError:
        raise
    except (ValueError, RecursionError):
        raise StrictJsonError("it is not JSON") from None
    if _SURROGATE.search(data) is not None:
        _refuse_lone_surrogates(value)
    return value


def _check_shape(data: bytes) -> None:
    """Bound depth and number of values, before the reader makes any."""
    bare = _STRING.sub(b"", data) if b'"' in data else data
    # Each value but the first stands behind one of these.
    if bare.count(b",") + bare.count(b":") + bare.count(b"[") + bare.count(b"{") >= MAX_JSON_VALUES:
        raise StrictJsonError("it has too many values")
    if bare.count(b"[") + bare.count(b"{") <= MAX_JSON_DEPTH:
        return
    depth = 0
    for byte in _NOT_STRUCTURE.sub(b"", bare):
        depth += 1 if byte in _OPENERS else -1
        if depth > MAX_JSON_DEPTH:
            raise StrictJsonError("it is nested too deeply")


def _object(pairs: list[tuple[str, JsonValue]]) -> Mapping[str, JsonValue]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise StrictJsonError("a key is there twice", "json.duplicate_key")
    return made


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise StrictJsonError("a number is too long")
    return int(text)


def _constant(_: str) -> JsonValue:
    raise StrictJsonError("NaN and Infinity are not JSON")


def _refuse_lone_surrogates(value: JsonValue) -> None:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.keys()
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str) and not _is_unicode(each):
            raise StrictJsonError("a text holds half a character")


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=JsonFloat, parse_int=_integer, parse_constant=_constant
)
