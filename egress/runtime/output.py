"""Output of a command as it is kept: so many bytes of each stream, and whether there was more."""

from __future__ import annotations

from egress.runtime.protocol import Chunk


class Kept:
    """One stream. What comes is told to whoever wants to be told, all of it; the beginning is kept."""

    def __init__(self, most: int, told: Chunk | None = None) -> None:
        self._most = most
        self._told = told
        self._data = bytearray()
        self.truncated = False

    def add(self, data: bytes) -> None:
        room = self._most - len(self._data)
        if len(data) > room:
            self.truncated = True
        self._data += data[:room]
        if self._told is not None:
            self._told(data)

    def data(self) -> bytes:
        return bytes(self._data)
