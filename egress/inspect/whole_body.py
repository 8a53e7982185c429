"""Read a body as a whole, where its last byte may change its meaning; or wait for the end without a body."""

from __future__ import annotations

from collections.abc import Callable

from egress.inspect.inspector import MORE, Facts, Inspection, Unreadable


class WholeBody:
    """Keeps a body, and reads it at its end."""

    def __init__(self, read: Callable[[bytes], Facts | Unreadable]) -> None:
        self._read = read
        self._data = bytearray()

    def feed(self, data: bytes) -> Inspection:
        self._data += data
        return MORE

    def end(self) -> Facts | Unreadable:
        data = bytes(self._data)
        self._data.clear()
        return self._read(data)


class NoBody:
    """Waits for the end of a request whose head says all: a body beside it could say something else."""

    def __init__(self, facts: Facts, otherwise: Unreadable) -> None:
        self._facts = facts
        self._otherwise = otherwise

    def feed(self, data: bytes) -> Inspection:
        return self._otherwise if data else MORE

    def end(self) -> Facts | Unreadable:
        return self._facts
