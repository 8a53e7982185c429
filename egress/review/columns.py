"""Columns of a block: for each of its lines a few numbers, packed as one array for each kind. Pure."""

from __future__ import annotations

import zlib
from array import array
from dataclasses import dataclass, field
from typing import Self

MAX_UNPACKED_BYTES = 64 * 1024 * 1024
"""No block of ours unpacks to more. A larger one was not written by Egress."""


class DamagedError(ValueError):
    """These are no columns."""


@dataclass(slots=True)
class PlaceColumns:
    """Start, shape and time of each line of a block."""

    at: array[int] = field(default_factory=lambda: array("I"))
    """Counted from the beginning of the block."""
    shape: array[int] = field(default_factory=lambda: array("I"))
    moment: array[int] = field(default_factory=lambda: array("q"))

    def packed(self) -> bytes:
        # The quickest level: an index has to catch up with a log of any length.
        return zlib.compress(self.at.tobytes() + self.shape.tobytes() + self.moment.tobytes(), 1)

    @classmethod
    def unpacked(cls, data: bytes, lines: int) -> Self:
        """Raises `DamagedError`."""
        found = _whole(data, lines * 16)
        return cls(
            array("I", found[: lines * 4]),
            array("I", found[lines * 4 : lines * 8]),
            array("q", found[lines * 8 :]),
        )


@dataclass(slots=True)
class NumberColumns:
    """For each line of a block how many requests it stands for, its bytes each way, and its microseconds."""

    requests: array[int] = field(default_factory=lambda: array("Q"))
    up: array[int] = field(default_factory=lambda: array("Q"))
    down: array[int] = field(default_factory=lambda: array("Q"))
    took: array[int] = field(default_factory=lambda: array("Q"))

    def packed(self) -> bytes:
        parts = (self.requests, self.up, self.down, self.took)
        return zlib.compress(b"".join(part.tobytes() for part in parts), 1)

    @classmethod
    def unpacked(cls, data: bytes, lines: int) -> Self:
        """Raises `DamagedError`."""
        found = _whole(data, lines * 32)
        width = lines * 8
        return cls(*(array("Q", found[at : at + width]) for at in range(0, lines * 32, width or 1)))


def unpacked(data: bytes) -> bytes:
    """Unpack bytes of any length up to the limit. Raises `DamagedError`."""
    try:
        # Bounded: a few forged bytes in the index could otherwise unpack to all of the memory.
        return zlib.decompressobj().decompress(data, MAX_UNPACKED_BYTES)
    except zlib.error:
        raise DamagedError from None


def _whole(data: bytes, size: int) -> bytes:
    try:
        # A single byte more than expected is enough to see that the length is wrong.
        found = zlib.decompressobj().decompress(data, min(size + 1, MAX_UNPACKED_BYTES))
    except zlib.error:
        found = b""
    if len(found) != size:
        raise DamagedError
    return found
