"""Reads a JSON object field by field: each field has its type, and no field is left over.

A mismatch raises `FleetProtocolError`: both sides are Egress, so it is no mistake of a user.
"""

from __future__ import annotations

from collections.abc import Mapping

from egress.fleet.rpc_frames import protocol_error


class JsonFields:
    """A JSON object that is being read."""

    def __init__(self, values: object) -> None:
        if not isinstance(values, Mapping):
            raise protocol_error()
        self._left = dict(values)

    def text(self, name: str) -> str:
        return _checked_as(str, self._taken(name))

    def text_or_none(self, name: str) -> str | None:
        value = self._taken(name)
        return None if value is None else _checked_as(str, value)

    def integer(self, name: str) -> int:
        return _as_integer(self._taken(name))

    def integer_or_none(self, name: str) -> int | None:
        value = self._taken(name)
        return None if value is None else _as_integer(value)

    def number(self, name: str) -> float:
        return _as_number(self._taken(name))

    def number_or_none(self, name: str) -> float | None:
        value = self._taken(name)
        return None if value is None else _as_number(value)

    def is_true(self, name: str) -> bool:
        return _checked_as(bool, self._taken(name))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(_checked_as(str, each) for each in self._list(name))

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(_as_integer(each) for each in self._list(name))

    def values(self, name: str) -> dict[str, str]:
        found = _checked_as(dict, self._taken(name))
        return {_checked_as(str, key): _checked_as(str, value) for key, value in found.items()}

    def inner(self, name: str) -> JsonFields:
        return JsonFields(self._taken(name))

    def inner_or_none(self, name: str) -> JsonFields | None:
        value = self._taken(name)
        return None if value is None else JsonFields(value)

    def inners(self, name: str) -> tuple[JsonFields, ...]:
        return tuple(JsonFields(each) for each in self._list(name))

    def end(self) -> None:
        """Refuse fields that were not read."""
        if self._left:
            raise protocol_error()

    def _list(self, name: str) -> list[object]:
        return _checked_as(list, self._taken(name))

    def _taken(self, name: str) -> object:
        if name not in self._left:
            raise protocol_error()
        return self._left.pop(name)


def _checked_as[T](kind: type[T], value: object) -> T:
    if not isinstance(value, kind):
        raise protocol_error()
    return value


def _as_integer(value: object) -> int:
    # bool is a subclass of int in Python, and JSON keeps them apart.
    if isinstance(value, bool):
        raise protocol_error()
    return _checked_as(int, value)


def _as_number(value: object) -> float:
    return float(value) if isinstance(value, float) else float(_as_integer(value))
