"""A tar archive, read with Python's own library, and no more of it in memory than people need.

The library reads whatever describes an entry as a whole, before anybody can judge the entry: names, keys,
maps of holes, one after the other and each of any size. So their sizes, their keys and their number are
looked at before it reads them. Maps of holes are not read at all: what has one is only marked as a file with
holes.

It is read forwards only, so that it can come from a pipe.
"""

from __future__ import annotations

import tarfile
from typing import BinaryIO, Final

from egress.runtime.errors import ArchiveError

_KEYED: Final = frozenset({tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE})
_DESCRIBING: Final = frozenset({*_KEYED, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK})
_MOST_DESCRIBING: Final = 1024 * 1024
"""Bytes that describe one entry."""
_MOST_GENERAL: Final = 64 * 1024
"""Characters of what is said for all entries: it is read again at every one."""
_MOST_PARTS: Final = 20
"""That describe one entry. The library goes deeper by some calls for each."""
_MOST_KEYS: Final = 100
"""In one part, and of what is said for all entries."""
_LONGEST_LENGTH: Final = 8
_SHORTEST_RECORD: Final = 5
_MORE: Final = 504
"""Where a block of a map of holes says whether another one follows."""
_PIECE: Final = 64 * 1024


class Reader(tarfile.TarFile):
    """An archive from its beginning to its end. Raises `ArchiveError`, and whatever the library does."""

    def __init__(self, source: BinaryIO) -> None:
        self.source = _Forwards(source)
        self._parts = self._described = 0
        super().__init__(fileobj=self.source, tarinfo=_Entry)  # type: ignore[arg-type] # it is file enough

    def next(self) -> tarfile.TarInfo | None:
        """Return the next entry, None behind the last one."""
        self._parts = self._described = 0
        entry = super().next()
        # It keeps all it has read, for those who want to go back.
        self.members.clear()  # type: ignore[attr-defined] # not in the stubs
        if sum(len(name) + len(value) for name, value in self.pax_headers.items()) > _MOST_GENERAL:
            raise unreadable()
        return entry

    def judge(self, part: tarfile.TarInfo) -> None:
        """Refuse what describes an entry where it is too much, before it is read."""
        self._parts += 1
        self._described += part.size
        if part.size < 0 or self._parts > _MOST_PARTS or self._described > _MOST_DESCRIBING:
            raise unreadable()
        if part.type in _KEYED:
            keys = _keys(self.source.look(part.size))
            if keys + len(self.pax_headers) > _MOST_KEYS:
                raise unreadable()


class _Entry(tarfile.TarInfo):
    """Looked at before the library reads on, and read without maps of holes."""

    def _proc_member(self, reader: Reader) -> tarfile.TarInfo:
        """Where subclasses are to begin, as the library says."""
        if self.type in _DESCRIBING:
            reader.judge(self)
        return super()._proc_member(reader)  # type: ignore[misc, no-any-return] # not in the stubs

    def _proc_sparse(self, reader: Reader) -> tarfile.TarInfo:
        """Go past a map in blocks of its own, which stand before the contents."""
        _, more, size = self._sparse_structs  # type: ignore[attr-defined] # not in the stubs
        for _ in range(_MOST_DESCRIBING // tarfile.BLOCKSIZE):
            if not more:
                break
            block = reader.source.read(tarfile.BLOCKSIZE)
            more = len(block) == tarfile.BLOCKSIZE and block[_MORE]
        else:
            raise unreadable()
        self._proc_builtin(reader)  # type: ignore[attr-defined]
        self.size = size
        self._mark(self)
        return self

    @staticmethod
    def _mark(entry: tarfile.TarInfo, *_: object) -> None:
        entry.sparse = []  # type: ignore[assignment] # that is how the library knows one

    # The three ways to say it with keys; the map of the third would be read from the contents.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _mark


class _Forwards:
    """A file that is read once. What comes next can be looked at before."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._seen = b""
        self._at = 0

    def tell(self) -> int:
        return self._at

    def seek(self, place: int) -> None:
        """Go on to a place, or to the end. Raises `tarfile.StreamError` for one that has been passed."""
        if place < self._at:
            raise tarfile.StreamError("an archive is not read backwards")
        while place > self._at and self.read(min(place - self._at, _PIECE)):
            pass

    def read(self, size: int) -> bytes:
        """Return so many bytes; fewer only at the end."""
        self.look(size)
        found, self._seen = self._seen[:size], self._seen[size:]
        self._at += len(found)
        return found

    def look(self, size: int) -> bytes:
        """Return what `read` would."""
        while len(self._seen) < size and (piece := self._source.read(size - len(self._seen))):
            self._seen += piece
        return self._seen[:size]


def _keys(data: bytes) -> int:
    """How many records there are; the library keeps each. Raises `ArchiveError`."""
    at = count = 0
    while at < len(data) and data[at] and count <= _MOST_KEYS:
        length, space, _ = data[at : at + _LONGEST_LENGTH].partition(b" ")
        if not space or not length.isdigit() or int(length) < _SHORTEST_RECORD:
            raise unreadable()
        at += int(length)
        count += 1
    return count


def unreadable() -> ArchiveError:
    """Tell that an entry is not as people's are."""
    return ArchiveError("the archive holds an entry that cannot be read", "make it with tar")
