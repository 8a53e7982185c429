"""The verified extent of a log file: its length and a digest of its bytes.

A file can change between verification and a second read. A caller that vouches for the lines must compare the
bytes of its own read with this extent.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VerifiedExtent:
    """The complete lines of a file, valid or not, as length and digest."""

    number: int
    size: int
    """Bytes, up to a line end."""
    digest: bytes
    """SHA-256 of these bytes."""


class ExtentDigest:
    """Digest over the pieces of a file."""

    __slots__ = ("_hash", "_size", "_whole")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._size = 0
        self._whole = (0, self._hash.digest())

    def add(self, data: bytes) -> None:
        """Add the next piece. A piece without a line end is an incomplete line until the next piece."""
        self._hash.update(data)
        self._size += len(data)
        # The digest covers whole lines only: the proxy may be writing the last one right now.
        if data.endswith(b"\n"):
            self._whole = (self._size, self._hash.digest())

    def extent(self, number: int) -> VerifiedExtent:
        """Return the extent up to the last line end."""
        return VerifiedExtent(number, *self._whole)
