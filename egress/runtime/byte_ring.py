"""The newest bytes of an endless stream, by their offsets: no waiting, and no lock.

Every byte has a number, counted from the beginning of the stream. A reader that asks for bytes which are gone
sees it by the offset of what it gets.
"""

from __future__ import annotations


class ByteRing:
    """The newest bytes of one stream. The caller excludes other threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # One array: a stream of tiny pieces would otherwise cost many times its bytes.
        self._kept = bytearray()
        self.end = 0
        """The number of bytes so far."""

    @property
    def first(self) -> int:
        """The offset of the oldest byte that is kept."""
        return self.end - len(self._kept)

    def add(self, piece: bytes) -> None:
        """Add the next bytes."""
        self.end += len(piece)
        self._kept += piece
        excess = len(self._kept) - self._max_bytes
        if excess > 0:
            del self._kept[:excess]

    def read(self, offset: int, most: int | None = None) -> tuple[int, bytes]:
        """Return the kept bytes from an offset on, and the offset of their first, which may be higher."""
        at = max(offset, self.first)
        begin = at - self.first
        stop = None if most is None else begin + most
        return at, bytes(memoryview(self._kept)[begin:stop])
