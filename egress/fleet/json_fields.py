"""Reads a JSON object field by field: each field has its type, and no field is left over.

A mismatch raises `FleetProtocolError`: both sides are Egress, so it is no mistake of a user. The type of a
field is an annotation, so a dataclass is read by the annotations of its own fields.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import is_dataclass
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Final, Literal, cast, get_args, get_origin, get_type_hints

from egress.fleet.rpc_frames import protocol_error


class JsonFields:
    """A JSON object that is being read."""

    def __init__(self, values: object) -> None:
        self._left = dict(_checked_as(dict, values))

    def text(self, name: str) -> str:
        return _checked_as(str, self.take(name, str))

    def integer(self, name: str) -> int:
        return _checked_as(int, self.take(name, int))

    def number(self, name: str) -> float:
        return _checked_as(float, self.take(name, float))

    def is_true(self, name: str) -> bool:
        return _checked_as(bool, self.take(name, bool))

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(_checked_as(int, each) for each in _list(int, self._taken(name)))

    def values(self, name: str) -> dict[str, str]:
        return _values(self._taken(name))

    def inner(self, name: str) -> JsonFields:
        return JsonFields(self._taken(name))

    def inners(self, name: str) -> tuple[JsonFields, ...]:
        return tuple(JsonFields(each) for each in _checked_as(list, self._taken(name)))

    def take(self, name: str, kind: object) -> object:
        """Read one field as a value of the annotated type `kind`."""
        return _convert(kind, self._taken(name))

    def end(self) -> None:
        """Refuse fields that were not read."""
        if self._left:
            raise protocol_error()

    def _taken(self, name: str) -> object:
        if name not in self._left:
            raise protocol_error()
        return self._left.pop(name)


def read[T](kind: type[T], fields: JsonFields, **given: object) -> T:
    """Read a dataclass; fields in `given` are not part of the JSON object.

    Values are checked as when made: an impossible value raises the usual error of its class.
    """
    hints = _annotations(cast("Hashable", kind))
    values = {name: fields.take(name, hint) for name, hint in hints.items() if name not in given}
    # A field that this version does not know may change the meaning of the others.
    fields.end()
    return kind(**values, **given)


@functools.cache
def _annotations(kind: Hashable) -> Mapping[str, object]:
    return get_type_hints(kind)


def _convert(kind: object, value: object) -> object:
    """The JSON value as the annotated type. An annotation without a rule is a mistake, and raises."""
    if isinstance(kind, UnionType):
        (present,) = (each for each in get_args(kind) if each is not NoneType)
        return None if value is None else _convert(present, value)
    if is_dataclass(kind) and isinstance(kind, type):
        return read(kind, JsonFields(value))
    converter = _CONVERTERS.get(get_origin(kind) or kind)
    if converter is None:
        raise TypeError(f"no JSON form for {kind}")
    return converter(get_args(kind), value)


def _list(kind: object, value: object) -> list[object]:
    return [_convert(kind, each) for each in _checked_as(list, value)]


def _values(value: object) -> dict[str, str]:
    found = _checked_as(dict, value)
    return {_checked_as(str, key): _checked_as(str, each) for key, each in found.items()}


def _one_of(words: tuple[object, ...], value: object) -> object:
    if _checked_as(str, value) not in words:
        raise protocol_error()
    return value


def _integer(value: object) -> int:
    # bool is a subclass of int in Python, and JSON keeps them apart.
    if isinstance(value, bool):
        raise protocol_error()
    return _checked_as(int, value)


def _timestamp(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise protocol_error() from None


def _checked_as[T](kind: type[T], value: object) -> T:
    if not isinstance(value, kind):
        raise protocol_error()
    return value


def _float(value: object) -> float:
    return value if isinstance(value, float) else float(_integer(value))


_CONVERTERS: Final[Mapping[object, Callable[[tuple[object, ...], object], object]]] = {
    str: lambda _, value: _checked_as(str, value),
    bool: lambda _, value: _checked_as(bool, value),
    int: lambda _, value: _integer(value),
    float: lambda _, value: _float(value),
    Path: lambda _, value: Path(_checked_as(str, value)),
    datetime: lambda _, value: _timestamp(_checked_as(str, value)),
    Mapping: lambda _, value: _values(value),
    Literal: _one_of,
    tuple: lambda kinds, value: tuple(_list(kinds[0], value)),
}
