"""Filters tar archives between a sandbox and the outside, in both directions: read as hostile, written anew.

Theory of operation. An archive is a program for its unpacker: names lead out of the folder, links lead there
first, devices and set-user bits are dangerous just by existing. So no entry is passed on as it is. Each is
parsed, judged, and written to a new archive in its plainest form: folders, files and links, with permission
bits for reading, writing and running only. Any tool can then unpack that archive without writing outside of
one folder.

- A name is relative, without `..`, and unique. An entry whose name leads out, or that lies below a link or a
  file, makes the whole archive refused: no tool writes such entries by accident.
- A link that leads out of the archive, a device, a pipe, a sparse file: left out, and reported. Folders of
  people contain them.
- Owners, times before 1970 and further metadata are dropped silently.

Limits hold for the whole archive: entries, bytes, and length of names. Names are kept in memory, contents are
not; names of folders above an entry count too, because a few bytes of an archive can name thousands.
`BoundedTarReader` limits the headers themselves.
"""

from __future__ import annotations

import struct
import tarfile
from collections.abc import Collection
from dataclasses import dataclass, field
from posixpath import dirname, join, normpath
from typing import BinaryIO, Final, Literal

from egress.runtime.errors import ArchiveError

_PERMISSION_BITS: Final = 0o777
_MAX_MODIFIED_TIME: Final = (1 << 33) - 1
_MAX_PATH_LENGTH: Final = 4096
_MAX_PATH_PART_BYTES: Final = 255
_MAX_REPORTED_NAMES: Final = 100
_PARSE_ERRORS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""Errors that tarfile raises, besides its own, for unexpected archives."""

Kind = Literal["folder", "file", "link"]


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """The limits of an archive."""

    entries: int = 1_000_000
    size: int = 16 * 1024**3
    """Bytes of all files together."""
    names: int = 128 * 1024**2
    """Characters of all names in memory, folders above entries included."""


@dataclass(slots=True)
class FilterResult:
    """The counts of a filtered archive."""

    entries: int = 0
    size: int = 0
    left_out: list[str] = field(default_factory=list)
    """The first hundred names that were left out."""
    omitted: int = 0
    """The number of entries that were left out."""


DEFAULT_ARCHIVE_LIMITS: Final = ArchiveLimits()


def filter_archive(
    source: BinaryIO,
    target: BinaryIO,
    limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS,
    omit: Collection[str] = (),
) -> FilterResult:
    """Write the harmless part of an archive as a new archive. Raises `ArchiveError` for a hostile one.

    A part of it may have been written by then. Entries with a name in `omit` are left out.
    """
    found = FilterResult()
    known = _KnownEntries(limits.names)
    try:
        with (
            BoundedTarReader(source) as old,
            tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as new,
        ):
            # Counted before it is copied: an entry past the limits is never written.
            while (entry := old.next()) is not None:
                _count(entry, found, limits)
                _copy_entry(entry, old, new, known, found, omit)
                # tarfile keeps every member it has written in memory.
                new.members.clear()  # type: ignore[attr-defined] # not in the stubs
    except tarfile.TarError:
        raise ArchiveError("not a complete tar archive", "create it with tar, uncompressed") from None
    except _PARSE_ERRORS:
        raise unreadable_entry_error() from None
    return found


def _count(entry: tarfile.TarInfo, found: FilterResult, limits: ArchiveLimits) -> None:
    found.entries += 1
    found.size += entry.size if entry.isreg() and not entry.issparse() else 0
    if entry.size < 0:
        raise unreadable_entry_error()
    if found.entries > limits.entries or found.size > limits.size:
        raise ArchiveError(
            f"the archive holds more than {limits.entries} entries or {limits.size} bytes",
            "split it into smaller archives",
        )


def _copy_entry(
    entry: tarfile.TarInfo,
    old: tarfile.TarFile,
    new: tarfile.TarFile,
    known: _KnownEntries,
    found: FilterResult,
    omit: Collection[str],
) -> None:
    name = _name(entry.name)
    plain = None if name in omit else _plain_entry(entry, name)
    if plain is None:
        found.omitted += 1
        if len(found.left_out) < _MAX_REPORTED_NAMES:
            found.left_out.append(name)
        return
    _check_place(name, plain, known)
    if plain.isreg():
        new.addfile(plain, old.extractfile(entry))
    else:
        new.addfile(plain)


def _name(raw: str) -> str:
    """The name as it is written, `.` for the folder itself. Raises `ArchiveError`."""
    parts = [part for part in raw.split("/") if part not in ("", ".")]
    is_odd = not raw or raw.startswith("/") or ".." in parts or "\0" in raw or len(raw) > _MAX_PATH_LENGTH
    if is_odd or any(len(part.encode("utf-8", "surrogateescape")) > _MAX_PATH_PART_BYTES for part in parts):
        raise ArchiveError(
            "the archive holds a name that leads out of it", "create it from a folder, with relative names"
        )
    return "/".join(parts) or "."


def _plain_entry(entry: tarfile.TarInfo, name: str) -> tarfile.TarInfo | None:
    """The entry without unneeded metadata; None for an entry that is left out."""
    plain = tarfile.TarInfo(name)
    plain.mtime = min(max(int(entry.mtime), 0), _MAX_MODIFIED_TIME)
    plain.mode = entry.mode & _PERMISSION_BITS
    if entry.isdir():
        plain.type = tarfile.DIRTYPE
    elif entry.isreg() and not entry.issparse() and name != ".":
        plain.type, plain.size = tarfile.REGTYPE, entry.size
    elif entry.issym() and name != "." and _stays_inside(name, entry.linkname):
        plain.type, plain.linkname = tarfile.SYMTYPE, entry.linkname
    elif entry.islnk() and _is_inside(entry.linkname) and name != ".":
        # Both names mean one file, so either may be the link.
        plain.type, plain.linkname = tarfile.LNKTYPE, _name(entry.linkname)
    else:
        return None
    return plain


def _stays_inside(name: str, target: str) -> bool:
    """Return whether a link leads to a place below the archive's folder."""
    if not target or target.startswith("/") or "\0" in target or len(target) > _MAX_PATH_LENGTH:
        return False
    # Normalising alone is wrong: `a/../..` leads elsewhere if `a` is a link. So `..` is accepted only at the
    # beginning.
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climbs = 0
    while climbs < len(parts) and parts[climbs] == "..":
        climbs += 1
    if ".." in parts[climbs:]:
        return False
    end = normpath(join(dirname(name) or ".", target))
    return end != ".." and not end.startswith("../")


def _is_inside(target: str) -> bool:
    try:
        _name(target)
    except ArchiveError:
        return False
    return True


class _KnownEntries:
    """The kinds of entries, by name."""

    def __init__(self, max_characters: int) -> None:
        self._kinds: dict[str, Kind] = {}
        self._characters_left = max_characters

    def get(self, name: str) -> Kind | None:
        return self._kinds.get(name)

    def add(self, name: str, kind: Kind) -> None:
        """Add a name. Raises `ArchiveError` beyond the limit of characters."""
        if name not in self._kinds:
            self._characters_left -= len(name)
            if self._characters_left < 0:
                raise ArchiveError("the archive holds too many long names", "split it into smaller archives")
        self._kinds[name] = kind


def _check_place(name: str, plain: tarfile.TarInfo, known: _KnownEntries) -> None:
    """Refuse an entry that would be written through another one; remember its kind."""
    kind: Kind = "folder" if plain.isdir() else "link" if plain.issym() else "file"
    there = known.get(name)
    if there is not None and not there == kind == "folder":
        raise ArchiveError("the archive holds a name twice", "create it with tar, from distinct names")
    if plain.islnk() and known.get(plain.linkname) != "file":
        raise ArchiveError("the archive holds a hard link without its file", "create it with tar")
    # Every folder above has to be a folder: an entry below a link would be written where the link leads.
    above = dirname(name)
    while above:
        if known.get(above) not in (None, "folder"):
            raise ArchiveError("the archive writes through a link or a file", "create it with tar")
        known.add(above, "folder")
        above = dirname(above)
    known.add(name, kind)


# tarfile reads everything that describes an entry into memory before a caller can judge the entry: names,
# keys, sparse maps, any number of any size. So their sizes, keys and number are checked before it reads them.
# Sparse maps are not read at all: such an entry is only marked as sparse. Archives are read forwards only,
# because they can come from a pipe.
_KEYED_TYPES: Final = frozenset({tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE})
_DESCRIBING_TYPES: Final = frozenset({*_KEYED_TYPES, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK})
_MAX_DESCRIPTION_BYTES: Final = 1024 * 1024
"""Bytes that describe one entry."""
_MAX_GLOBAL_HEADER_BYTES: Final = 64 * 1024
"""Characters of global headers, which tarfile reads again at every entry."""
_MAX_DESCRIPTION_PARTS: Final = 20
"""Headers that describe one entry. tarfile recurses by some calls for each."""
_MAX_KEYS: Final = 100
"""Keys of one header, and of all global headers."""
_MAX_LENGTH_DIGITS: Final = 8
_MIN_RECORD_BYTES: Final = 5
_SPARSE_EXTENDED_OFFSET: Final = 504
"""The byte of a sparse map block that announces another block."""
_READ_BYTES: Final = 64 * 1024


class BoundedTarReader(tarfile.TarFile):
    """An archive read from beginning to end. Raises `ArchiveError`, and errors of tarfile."""

    def __init__(self, source: BinaryIO) -> None:
        self.source = _ForwardReader(source)
        self._parts = self._described = 0
        super().__init__(fileobj=self.source, tarinfo=_CheckedEntry)  # type: ignore[arg-type] # has all methods that are used

    def next(self) -> tarfile.TarInfo | None:
        """Return the next entry; None after the last one."""
        self._parts = self._described = 0
        entry = super().next()
        # tarfile keeps every member it has read in memory.
        self.members.clear()  # type: ignore[attr-defined] # not in the stubs
        if sum(len(name) + len(value) for name, value in self.pax_headers.items()) > _MAX_GLOBAL_HEADER_BYTES:
            raise unreadable_entry_error()
        return entry

    def check_size(self, part: tarfile.TarInfo) -> None:
        """Refuse headers of an entry that are too large, before tarfile reads them."""
        self._parts += 1
        self._described += part.size
        if part.size < 0 or self._parts > _MAX_DESCRIPTION_PARTS or self._described > _MAX_DESCRIPTION_BYTES:
            raise unreadable_entry_error()
        if part.type in _KEYED_TYPES:
            keys = _count_keys(self.source.look(part.size))
            if keys + len(self.pax_headers) > _MAX_KEYS:
                raise unreadable_entry_error()


class _CheckedEntry(tarfile.TarInfo):
    """A header that is checked before tarfile reads on, and read without sparse maps."""

    def _proc_member(self, reader: BoundedTarReader) -> tarfile.TarInfo:
        """The hook for subclasses, according to tarfile's documentation."""
        if self.type in _DESCRIBING_TYPES:
            reader.check_size(self)
        return super()._proc_member(reader)  # type: ignore[misc, no-any-return] # not in the stubs

    def _proc_sparse(self, reader: BoundedTarReader) -> tarfile.TarInfo:
        """Skip the blocks of a sparse map, which precede the contents."""
        _, more, size = self._sparse_structs  # type: ignore[attr-defined] # not in the stubs
        for _ in range(_MAX_DESCRIPTION_BYTES // tarfile.BLOCKSIZE):
            if not more:
                break
            block = reader.source.read(tarfile.BLOCKSIZE)
            more = len(block) == tarfile.BLOCKSIZE and block[_SPARSE_EXTENDED_OFFSET]
        else:
            raise unreadable_entry_error()
        self._proc_builtin(reader)  # type: ignore[attr-defined]
        self.size = size
        self._mark(self)
        return self

    @staticmethod
    def _mark(entry: tarfile.TarInfo, *_: object) -> None:
        entry.sparse = []  # type: ignore[assignment] # tarfile's mark of a sparse file

    # The three formats with keys; tarfile would read the map of the third from the contents.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _mark


class _ForwardReader:
    """A file that is read once, with lookahead."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._seen = b""
        self._at = 0

    def tell(self) -> int:
        return self._at

    def seek(self, place: int) -> None:
        """Skip to a position, or to the end. Raises `tarfile.StreamError` for an earlier position."""
        if place < self._at:
            raise tarfile.StreamError("an archive is not read backwards")
        while place > self._at and self.read(min(place - self._at, _READ_BYTES)):
            pass

    def read(self, size: int) -> bytes:
        """Return this many bytes; fewer only at the end."""
        self.look(size)
        found, self._seen = self._seen[:size], self._seen[size:]
        self._at += len(found)
        return found

    def look(self, size: int) -> bytes:
        """Return what `read` would, without consuming it."""
        while len(self._seen) < size and (piece := self._source.read(size - len(self._seen))):
            self._seen += piece
        return self._seen[:size]


def _count_keys(data: bytes) -> int:
    """The number of records; tarfile keeps each in memory. Raises `ArchiveError`."""
    at = count = 0
    while at < len(data) and data[at] and count <= _MAX_KEYS:
        length, space, _ = data[at : at + _MAX_LENGTH_DIGITS].partition(b" ")
        if not space or not length.isdigit() or int(length) < _MIN_RECORD_BYTES:
            raise unreadable_entry_error()
        at += int(length)
        count += 1
    return count


def unreadable_entry_error() -> ArchiveError:
    """The error for a malformed entry."""
    return ArchiveError("the archive holds an entry that cannot be read", "create it with tar")
