"""What a check of a log went over: how far each file goes, and a digest of it up to there.

A file that was checked can be another one when it is opened again. Whoever goes on with its lines, and says
that they were sound, compares what it reads then with this.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VerifiedExtent:
    """What was read of one file: all lines that had their end, whatever they were."""

    number: int
    size: int
    """Bytes, up to a line end."""
    digest: bytes
    """SHA-256 of them."""


class ExtentDigest:
    """Adds up the pieces of one file as they are read."""

    __slots__ = ("_hash", "_size", "_whole")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._size = 0
        self._whole = (0, self._hash.digest())

    def add(self, data: bytes) -> None:
        """Take what stands behind the pieces before; one without a line end is the beginning of a line."""
        self._hash.update(data)
        self._size += len(data)
        if data.endswith(b"\n"):
            self._whole = (self._size, self._hash.digest())

    def extent(self, number: int) -> VerifiedExtent:
        """What was read of the file of that number."""
        return VerifiedExtent(number, *self._whole)
