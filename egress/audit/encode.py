"""A line as the text between its time and its MAC: JSON in ASCII, every text as long as the schema allows.

A value from a sandbox may hold any byte. People read the log in terminals and programs split it at line ends,
so every character that is not printable ASCII is escaped. Nothing that a producer hands over keeps a line
from being written: a text that is too long is cut, and the cut is marked.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

import msgspec
from msgspec import inspect

from egress.audit.fields import CUT_MARK, FACT_KEY, LogLine
from egress.audit.schema import LINE_KINDS

_ENCODER = msgspec.json.Encoder()
_DECODERS = {kind: msgspec.json.Decoder(kind) for kind in LINE_KINDS.values()}
_DELETE_BYTE = 0x7F
"""The one character of ASCII that msgspec writes as it is and a terminal may obey."""
_FACT_KEY = re.compile(FACT_KEY)


def body(line: LogLine) -> str:
    """The fields of a line, in order, without the brackets around them; what is too long is cut.

    Raises `TypeError` for a value that the schema has no place for.
    """
    try:
        # Reading it back checks every bound of the schema in one call, quicker than any loop over the fields.
        _DECODERS[type(line)].decode(_ENCODER.encode(line))
    except (msgspec.ValidationError, UnicodeEncodeError):
        # Rare: only an overlong or malformed value gets here, and every part of the line is cut then.
        fields = _cut(msgspec.to_builtins(line), _type_of(type(line)))
        try:
            msgspec.convert(fields, type(line))
        except msgspec.ValidationError as error:
            raise TypeError(f"a line of the kind {line.__struct_config__.tag!r}: {error}") from None
        return _plain(fields)
    return escaped(line)


def escaped(line: LogLine) -> str:
    """The same of a line in which every text is cut."""
    try:
        data = _ENCODER.encode(line)
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8: a byte that is not ASCII sends the line to the slower encoder.
        data = b"\xff"
    if data.isascii() and data.find(_DELETE_BYTE) < 0:
        return data[1:-1].decode("ascii")
    return _plain(msgspec.to_builtins(line))


def cut(text: str, limit: int) -> str:
    """A text of at most `limit` characters; a longer one is cut and marked."""
    return text if len(text) <= limit else text[:limit] + CUT_MARK


def _plain(fields: object) -> str:
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))[1:-1]


@lru_cache
def _type_of(kind: type[LogLine]) -> inspect.Type:
    return inspect.type_info(kind)


def _cut(value: object, bound: inspect.Type) -> object:
    """The value with every text, list and map in it as long as its type allows."""
    if isinstance(bound, inspect.Metadata):
        return _cut(value, bound.type)
    if isinstance(bound, inspect.UnionType):
        wanted = inspect.StrType if isinstance(value, str) else inspect.DictType
        return next((_cut(value, one) for one in bound.types if isinstance(one, wanted)), value)
    if isinstance(value, str) and isinstance(bound, inspect.StrType):
        return value if bound.max_length is None else cut(value, bound.max_length - len(CUT_MARK))
    if isinstance(value, list | tuple) and isinstance(bound, inspect.VarTupleType):
        return [_cut(item, bound.item_type) for item in value[: bound.max_length]]
    if isinstance(value, dict) and isinstance(bound, inspect.StructType):
        types = {field.encode_name: field.type for field in bound.fields}
        return {name: _cut(item, types[name]) if name in types else item for name, item in value.items()}
    if isinstance(value, dict) and isinstance(bound, inspect.DictType):
        return _cut_map(value, bound)
    return value


def _cut_map(value: dict[str, object], bound: inspect.DictType) -> dict[object, object]:
    """The same of a map. Facts with a name that no reader takes are left out."""
    is_of_facts = bound.max_length is not None
    known = [(key, item) for key, item in value.items() if not is_of_facts or _FACT_KEY.fullmatch(key)]
    return {
        _cut(key, bound.key_type): _cut(item, bound.value_type) for key, item in known[: bound.max_length]
    }
