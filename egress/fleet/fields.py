"""Reading a JSON object field by field, each of the type it has to be, and none left over.

What does not fit raises `FleetProtocolError`: both sides are ours, so it is no mistake of a user.
"""

from __future__ import annotations

from collections.abc import Mapping

from egress.fleet.wire import wrong


class Fields:
    """One object that is being read."""

    def __init__(self, values: object) -> None:
        if not isinstance(values, Mapping):
            raise wrong()
        self._left = dict(values)

    def text(self, name: str) -> str:
        return _as(str, self._taken(name))

    def text_or_none(self, name: str) -> str | None:
        value = self._taken(name)
        return None if value is None else _as(str, value)

    def whole(self, name: str) -> int:
        return _whole(self._taken(name))

    def whole_or_none(self, name: str) -> int | None:
        value = self._taken(name)
        return None if value is None else _whole(value)

    def number(self, name: str) -> float:
        return _number(self._taken(name))

    def number_or_none(self, name: str) -> float | None:
        value = self._taken(name)
        return None if value is None else _number(value)

    def is_true(self, name: str) -> bool:
        return _as(bool, self._taken(name))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(_as(str, each) for each in self._list(name))

    def wholes(self, name: str) -> tuple[int, ...]:
        return tuple(_whole(each) for each in self._list(name))

    def values(self, name: str) -> dict[str, str]:
        found = _as(dict, self._taken(name))
        return {_as(str, key): _as(str, value) for key, value in found.items()}

    def inner(self, name: str) -> Fields:
        return Fields(self._taken(name))

    def inner_or_none(self, name: str) -> Fields | None:
        value = self._taken(name)
        return None if value is None else Fields(value)

    def inners(self, name: str) -> tuple[Fields, ...]:
        return tuple(Fields(each) for each in self._list(name))

    def end(self) -> None:
        """Nothing else may stand there."""
        if self._left:
            raise wrong()

    def _list(self, name: str) -> list[object]:
        return _as(list, self._taken(name))

    def _taken(self, name: str) -> object:
        if name not in self._left:
            raise wrong()
        return self._left.pop(name)


def _as[T](kind: type[T], value: object) -> T:
    if not isinstance(value, kind):
        raise wrong()
    return value


def _whole(value: object) -> int:
    # True is a number to Python.
    if isinstance(value, bool):
        raise wrong()
    return _as(int, value)


def _number(value: object) -> float:
    return float(value) if isinstance(value, float) else float(_whole(value))
