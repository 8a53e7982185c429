"""The commits of a pack.

git writes commits before all other objects, whole or as deltas of each other; some clients write them last.
So other objects are passed over. Reading stops at a bound, and at the first fault: the server judges the
pack. An object id is the digest of the bytes that were read, so no pack can pass one commit off for another.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from typing import Final, NamedTuple

from egress.inspect.git.pack_delta import DeltaError, apply_delta
from egress.inspect.git.push_request import PACK_SIGNATURE, ObjectFormat

MAX_PACK_BYTES: Final = 16 * 1024 * 1024
MAX_OBJECTS: Final = 10_000
MAX_OBJECT_BYTES: Final = 256 * 1024
MAX_INFLATED_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of all objects. A deflated one grows by up to a thousand times, and commits are kept."""
FREE_KEPT_BYTES: Final = 64 * 1024
MAX_GROWTH: Final = 8
"""Commits that are kept are, above so many bytes, at most so many times as long as what came of the pack. A
held body counts in the share of its sandbox with the bytes that came: they stand for the memory it takes."""
MAX_DELTA_BYTES: Final = 64 * 1024
"""Most bytes of all deltas: each byte may be a step of work."""

_HEADER_BYTES: Final = 12
_PIECE_BYTES: Final = 2048
_PASSED_BYTES: Final = 64 * 1024
"""Bytes of an object that is passed over that are inflated at once."""
_VERSIONS: Final = frozenset((2, 3))
_MAX_OFFSET_BYTES: Final = 5
_COMMIT: Final = 1
_OFS_DELTA: Final = 6
_REF_DELTA: Final = 7
_OTHER_KINDS: Final = frozenset((2, 3, 4))
"""Trees, blobs and tags."""
_PARENTS: Final[dict[ObjectFormat, re.Pattern[bytes]]] = {
    "sha1": re.compile(rb"tree [0-9a-f]{40}\n((?:parent [0-9a-f]{40}\n)*+)author "),
    "sha256": re.compile(rb"tree [0-9a-f]{64}\n((?:parent [0-9a-f]{64}\n)*+)author "),
}
_ID_BYTES: Final[dict[ObjectFormat, int]] = {"sha1": 20, "sha256": 32}


class Commit(NamedTuple):
    """A commit, and the commits that it follows."""

    oid: str
    parents: tuple[str, ...]


class _Header(NamedTuple):
    kind: int
    size: int
    base: int | str | None
    """The place or the id of the object that a delta is of."""
    end: int
    """Bytes of the header."""


class PackCommits:
    """Reads commits out of a pack that is fed in any pieces."""

    __slots__ = (
        "_buffer",
        "_commits",
        "_delta_room",
        "_format",
        "_header",
        "_inflated",
        "_inflated_room",
        "_is_passed",
        "_kept",
        "_left",
        "_object",
        "_place",
        "_room",
        "_start",
        "_zlib",
        "is_over",
    )

    def __init__(self, object_format: ObjectFormat = "sha1") -> None:
        self._format = object_format
        self._buffer = bytearray()
        self._place = 0
        """Where in the pack the buffer begins."""
        self._left: int | None = None
        """Objects that are still to come; None before the header of the pack."""
        self._room, self._inflated_room = MAX_PACK_BYTES, MAX_INFLATED_BYTES
        self._delta_room = MAX_DELTA_BYTES
        self._kept = 0
        self._header = _Header(0, 0, None, 0)
        self._start = 0
        self._zlib: zlib._Decompress | None = None
        """The decoder of the object that is being read."""
        self._object = bytearray()
        self._inflated = 0
        """Bytes of the object so far."""
        self._is_passed = False
        """The object is no commit that is read, and not kept."""
        self._commits: dict[int | str, bytes] = {}
        """The content of each commit, by its place and by its id."""
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
        header = self._take(_HEADER_BYTES)
        version = int.from_bytes(header[4:8])
        if not header.startswith(PACK_SIGNATURE) or version not in _VERSIONS:
            self._stop()
        self._left = min(int.from_bytes(header[8:]), MAX_OBJECTS)
        return True

    def _read_object_header(self) -> bool:
        try:
            header = _object_header(self._buffer, self._place, _ID_BYTES[self._format])
        except ValueError:
            self._stop()
            return False
        if header is None:
            return False
        is_delta = header.base is not None and header.base in self._commits
        self._is_passed = not (is_delta or header.kind == _COMMIT) or header.size > MAX_OBJECT_BYTES
        self._header, self._start, self._zlib = header, self._place, zlib.decompressobj()
        self._take(header.end)
        self._object.clear()
        self._inflated = 0
        return True

    def _inflate(self, decoder: zlib._Decompress, found: list[Commit]) -> bool:
        # By small pieces: the decoder copies what it does not take, and many objects fit into one read.
        size = self._header.size
        while self._buffer and not decoder.eof:
            piece = bytes(self._buffer[:_PIECE_BYTES])
            # One byte more than the object has: a bound of 0 would be none.
            room = size + 1 - self._inflated
            try:
                data = decoder.decompress(piece, min(room, _PASSED_BYTES) if self._is_passed else room)
            except zlib.error:
                self._stop()
                return False
            if not self._is_passed:
                self._object += data
            self._inflated += len(data)
            self._inflated_room -= len(data)
            self._take(len(piece) - len(_left(decoder)))
            if self._inflated > size or self._inflated_room < 0:
                self._stop()
                return False
        if not decoder.eof:
            return False
        self._end_object(found)
        return True

    def _end_object(self, found: list[Commit]) -> None:
        self._zlib = None
        self._left = (self._left or 1) - 1
        if self._inflated != self._header.size:
            self._stop()
            return
        if self._is_passed:
            return
        whole: bytes | None = bytes(self._object)
        if self._header.base is not None:
            whole = self._resolved(self._commits[self._header.base], bytes(self._object))
        parents = None if whole is None else _PARENTS[self._format].match(whole)
        if whole is None or parents is None:
            self._stop()
            return
        self._kept += len(whole)
        if self._kept > FREE_KEPT_BYTES + MAX_GROWTH * self._place:
            self._stop()
            return
        digest = hashlib.new(self._format, b"commit %d\0" % len(whole), usedforsecurity=False)
        digest.update(whole)
        oid = digest.hexdigest()
        self._commits[self._start] = self._commits[oid] = whole
        words = parents[1].decode("ascii").split("\n")
        found.append(Commit(oid, tuple(word[7:] for word in words if word)))

    def _resolved(self, base: bytes, delta: bytes) -> bytes | None:
        self._delta_room -= len(delta)
        if self._delta_room < 0:
            return None
        try:
            made = apply_delta(base, delta, min(MAX_OBJECT_BYTES, self._inflated_room))
        except DeltaError:
            return None
        self._inflated_room -= len(made)
        return made

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        self._place += count
        return taken

    def _stop(self) -> None:
        self.is_over = True
        self._zlib = None
        self._buffer.clear()
        self._object.clear()
        self._commits.clear()


def _left(decoder: zlib._Decompress) -> bytes:
    """Return the bytes that the decoder has not taken; at its end it may name them twice."""
    return decoder.unused_data if decoder.eof else decoder.unconsumed_tail


def _object_header(data: bytearray, place: int, id_bytes: int) -> _Header | None:
    """Read the header that `data` begins with, at `place` of the pack; None before it is complete.

    Raises ValueError for an object that is not read.
    """
    size, shift = 0, 4
    for at, byte in enumerate(data):
        # Four bits of size in the first byte, seven in each that follows.
        size |= (byte & 0x0F) if at == 0 else (byte & 0x7F) << shift
        shift += 7 if at else 0
        if size > MAX_INFLATED_BYTES or shift > 32:
            raise ValueError("the object is too large")
        if not byte & 0x80:
            kind, end = (data[0] >> 4) & 7, at + 1
            break
    else:
        return None
    if kind == _OFS_DELTA:
        read = _offset(data, end)
        return None if read is None else _Header(kind, size, place - read[0], read[1])
    if kind == _REF_DELTA:
        base = bytes(data[end : end + id_bytes])
        return None if len(base) < id_bytes else _Header(kind, size, base.hex(), end + id_bytes)
    if kind != _COMMIT and kind not in _OTHER_KINDS:
        raise ValueError("the object is of no kind")
    return _Header(kind, size, None, end)


def _offset(data: bytearray, at: int) -> tuple[int, int] | None:
    """Read how far before a delta its base begins; return it with the end of the header."""
    offset = 0
    for end, byte in enumerate(data[at : at + _MAX_OFFSET_BYTES], at + 1):
        offset = (offset << 7) | (byte & 0x7F)
        if not byte & 0x80:
            return offset, end
        # Each byte that goes on counts one more, so that no offset has two spellings.
        offset += 1
    if len(data) >= at + _MAX_OFFSET_BYTES:
        raise ValueError("the offset is too large")
    return None
