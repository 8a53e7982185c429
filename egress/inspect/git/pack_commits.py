"""The commits at the head of a pack.

git writes commits before all other objects, and whole. Reading stops at the first object that is no whole
commit or tag, at a bound, and at the first fault: the server judges the pack. An object id is the digest of
the bytes that were read, so no pack can pass one commit off for another.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from typing import Final, NamedTuple

from egress.inspect.git.push_request import PACK_SIGNATURE, ObjectFormat

MAX_PACK_BYTES: Final = 16 * 1024 * 1024
MAX_OBJECTS: Final = 10_000
MAX_OBJECT_BYTES: Final = 1024 * 1024
MAX_INFLATED_BYTES: Final = 32 * 1024 * 1024
"""Most bytes of all objects: a deflated object grows by up to a thousand times, and each is hashed."""

_HEADER_BYTES: Final = 12
_PIECE_BYTES: Final = 2048
_VERSIONS: Final = frozenset((2, 3))
_COMMIT: Final = 1
_TAG: Final = 4
_PARENTS: Final[dict[ObjectFormat, re.Pattern[bytes]]] = {
    "sha1": re.compile(rb"tree [0-9a-f]{40}\n((?:parent [0-9a-f]{40}\n)*+)author "),
    "sha256": re.compile(rb"tree [0-9a-f]{64}\n((?:parent [0-9a-f]{64}\n)*+)author "),
}


class Commit(NamedTuple):
    """A commit, and the commits that it follows."""

    oid: str
    parents: tuple[str, ...]


class PackCommits:
    """Reads commits out of a pack that is fed in any pieces."""

    __slots__ = (
        "_buffer",
        "_format",
        "_inflated",
        "_is_commit",
        "_left",
        "_object",
        "_room",
        "_size",
        "_zlib",
        "is_over",
    )

    def __init__(self, object_format: ObjectFormat = "sha1") -> None:
        self._format = object_format
        self._buffer = bytearray()
        self._left: int | None = None
        """Objects that are still to come; None before the header of the pack."""
        self._room = MAX_PACK_BYTES
        self._inflated = 0
        self._zlib: zlib._Decompress | None = None
        """The decoder of the object that is being read."""
        self._object = bytearray()
        self._size = 0
        self._is_commit = False
        self.is_over = False
        """No more commits will be found."""

    def feed(self, data: bytes) -> list[Commit]:
        """Take in bytes of the pack; return the commits that they complete."""
        found: list[Commit] = []
        if self.is_over:
            return found
        self._buffer += data[: self._room]
        self._room -= len(data)
        while self._step(found):
            pass
        if self._room < 0:
            self._stop()
        return found

    def _step(self, found: list[Commit]) -> bool:
        """Read the next part, if it is complete; return whether it was."""
        if self.is_over:
            return False
        if self._zlib is not None:
            return self._inflate(self._zlib, found)
        if self._left is None:
            return self._read_pack_header()
        if not self._left:
            self._stop()
            return False
        return self._read_object_header()

    def _read_pack_header(self) -> bool:
        if len(self._buffer) < _HEADER_BYTES:
            return False
        header = bytes(self._buffer[:_HEADER_BYTES])
        del self._buffer[:_HEADER_BYTES]
        version = int.from_bytes(header[4:8])
        if not header.startswith(PACK_SIGNATURE) or version not in _VERSIONS:
            self._stop()
        self._left = min(int.from_bytes(header[8:]), MAX_OBJECTS)
        return True

    def _read_object_header(self) -> bool:
        """Read type and size: four bits of size in the first byte, seven in each that follows."""
        size, shift = 0, 4
        for at, byte in enumerate(self._buffer):
            size |= (byte & 0x0F) if at == 0 else (byte & 0x7F) << shift
            shift += 7 if at else 0
            if size > MAX_OBJECT_BYTES or shift > 32:
                break
            if byte & 0x80:
                continue
            if (self._buffer[0] >> 4) & 7 in (_COMMIT, _TAG):
                self._begin_object(size, header_bytes=at + 1)
                return True
            break
        else:
            return False
        self._stop()
        return False

    def _begin_object(self, size: int, *, header_bytes: int) -> None:
        self._is_commit = (self._buffer[0] >> 4) & 7 == _COMMIT
        del self._buffer[:header_bytes]
        self._size, self._zlib = size, zlib.decompressobj()
        self._object.clear()

    def _inflate(self, decoder: zlib._Decompress, found: list[Commit]) -> bool:
        # By small pieces: the decoder copies what it does not take, and many objects fit into one read.
        while self._buffer and not decoder.eof:
            piece = bytes(self._buffer[:_PIECE_BYTES])
            try:
                # One byte more than the object has: a bound of 0 would be none.
                data = decoder.decompress(piece, self._size + 1 - len(self._object))
            except zlib.error:
                self._stop()
                return False
            self._object += data
            self._inflated += len(data)
            del self._buffer[: len(piece) - len(decoder.unconsumed_tail) - len(decoder.unused_data)]
            if len(self._object) > self._size or self._inflated > MAX_INFLATED_BYTES:
                self._stop()
                return False
        if not decoder.eof:
            return False
        self._end_object(found)
        return True

    def _end_object(self, found: list[Commit]) -> None:
        self._zlib = None
        self._left = (self._left or 1) - 1
        whole = bytes(self._object)
        if len(whole) != self._size:
            self._stop()
        elif self._is_commit:
            parents = _PARENTS[self._format].match(whole)
            if parents is None:
                self._stop()
                return
            digest = hashlib.new(self._format, b"commit %d\0" % len(whole), usedforsecurity=False)
            digest.update(whole)
            words = parents[1].decode("ascii").split("\n")
            found.append(Commit(digest.hexdigest(), tuple(word[7:] for word in words if word)))

    def _stop(self) -> None:
        self.is_over = True
        self._zlib = None
        self._buffer.clear()
        self._object.clear()
