"""JSON in the one reading on which all readers agree; anything else is refused.

A body that two readers take differently is judged by one of them and obeyed by the other. Of a repeated key
most readers keep the last value and some the first; some compare keys before their escapes are read, some
after; NaN, a byte order mark and a lone surrogate are taken by some and refused by others. So all of these
are refused here.

The shape is checked before any value is made: depth and number of values are bounded, whatever the size is.
All sandboxes of a proxy wait while a body is read. So the reader of Python makes the values without a step of
ours for each, and the checks are searches over the bytes, or counts.
"""

from __future__ import annotations

import json
import re
from array import array
from itertools import accumulate
from typing import Final

import msgspec

MAX_JSON_DEPTH: Final = 64
MAX_JSON_VALUES: Final = 100_000
"""Values and keys in a body."""
MAX_INTEGER_DIGITS: Final = 64

_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)
"""A string, or one that never ends: without it, each quote in such a string would be tried to the end."""
_BRACKETS: Final = b"[{]}"
_STEPS: Final = bytes.maketrans(_BRACKETS, b"\x01\x01\xff\xff")
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(_BRACKETS))
"""The bytes that lead neither in nor out; a step of the others is a signed byte."""
_CONTAINERS: Final = (dict, list)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ONE_DIGIT: Final = bytes.maketrans(b"123456789", b"000000000")
_MANY_DIGITS: Final = b"0" * (MAX_INTEGER_DIGITS + 1)
"""More digits in a row than an integer may have, once all digits are one."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class JsonFloat:
    """A number with a fraction or an exponent, as it is written: readers round it differently.

    It is no dataclass, which the writer of a body would take for an object.
    """

    __match_args__ = ("text",)
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonFloat) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"JsonFloat({self.text!r})"


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
    keys, has_long_number = _check_shape(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise StrictJsonError("it is not UTF-8") from None
    try:
        decoder = _COUNTING_DECODER if has_long_number else _DECODER
        value: JsonValue = decoder.decode(text)
    except StrictJsonError:
        raise
    except (ValueError, RecursionError):
        raise StrictJsonError("it is not JSON") from None
    if _SURROGATE.search(data) is not None:
        try:
            encode_json(value)
        except UnicodeEncodeError:
            raise StrictJsonError("a text holds half a character") from None
    # A key that stands twice is in the text twice and in the value once, whatever its spelling is.
    if keys and _key_count(value) != keys:
        raise StrictJsonError("a key is there twice", "json.duplicate_key")
    return value


def _raw(value: object) -> msgspec.Raw:
    if not isinstance(value, JsonFloat):
        raise TypeError
    return msgspec.Raw(value.text.encode("ascii"))


encode_json: Final = msgspec.json.Encoder(enc_hook=_raw).encode
"""Write a value that was read here, numbers with a fraction as they came."""


def _check_shape(data: bytes) -> tuple[int, bool]:
    """Bound depth and number of values before the reader makes any.

    Return the number of keys, and whether a number has many digits in a row.
    """
    bare = _STRING.sub(b"", data) if b'"' in data else data
    keys, openers = bare.count(b":"), bare.count(b"[") + bare.count(b"{")
    # Each value but the first stands behind one of these.
    if bare.count(b",") + keys + openers >= MAX_JSON_VALUES:
        raise StrictJsonError("it has too many values")
    has_long_number = _MANY_DIGITS in bare.translate(_ONE_DIGIT)
    if openers <= MAX_JSON_DEPTH:
        return keys, has_long_number
    steps = array("b", bare.translate(_STEPS, _NOT_BRACKETS))
    if max(accumulate(steps)) > MAX_JSON_DEPTH:
        raise StrictJsonError("it is nested too deeply")
    return keys, has_long_number


def _key_count(value: JsonValue) -> int:
    """Return the number of keys in all objects."""
    found = 0
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            found += len(each)
            waiting += [inner for inner in each.values() if isinstance(inner, _CONTAINERS)]
        elif isinstance(each, list):
            waiting += [inner for inner in each if isinstance(inner, _CONTAINERS)]
    return found


def _constant(_: str) -> JsonValue:
    raise StrictJsonError("NaN and Infinity are not JSON")


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise StrictJsonError("a number is too long")
    return int(text)


_DECODER: Final = json.JSONDecoder(parse_float=JsonFloat, parse_constant=_constant)
_COUNTING_DECODER: Final = json.JSONDecoder(
    parse_float=JsonFloat, parse_int=_integer, parse_constant=_constant
)
"""Counts the digits of each integer, which takes time."""
