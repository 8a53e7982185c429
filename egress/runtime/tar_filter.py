"""Tar archives between a sandbox and the outside, in either direction: read as hostile, written anew.

Theory of operation. An archive is a program for whoever unpacks it: names lead out of the folder, links lead
there first, devices and set-user bits do things by being there. So none is passed on. Each entry is read,
judged, and written into another archive in its plainest form: folders, files and links, with permissions for
reading, writing and running, and nothing else. Whoever unpacks that with anything at all writes below one
folder.

- A name is relative, without `..`, and stands once. An entry whose name leads out, or that lies below a link
  or below a file, makes the whole archive refused: nobody writes such a thing by accident.
- A link that leads out of the archive, a device, a pipe, a file with holes: left out, and told. Folders of
  people hold them.
- Owners, times before 1970 and the rest of what formats can say are left out in silence.

Bounds hold for the whole: entries, bytes, the length of names. It keeps names in memory, not contents, and
those of folders above an entry as well: a few bytes of an archive can name thousands. So they are bounded
together. What is said about an entry, or about all at once, is bounded by `headers`.
"""

from __future__ import annotations

import struct
import tarfile
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
"""What the library raises besides its own errors where an archive says what it did not think of."""

Kind = Literal["folder", "file", "link"]


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """How much an archive may hold."""

    entries: int = 1_000_000
    size: int = 16 * 1024**3
    """Bytes of all files together."""
    names: int = 128 * 1024**2
    """Characters of all names that are kept, folders above entries among them."""


@dataclass(slots=True)
class FilterResult:
    """What was found."""

    entries: int = 0
    size: int = 0
    left_out: list[str] = field(default_factory=list)
    """Names of what was not passed on, the first hundred."""
    omitted: int = 0
    """How many there were."""


DEFAULT_ARCHIVE_LIMITS: Final = ArchiveLimits()


def filter_archive(
    source: BinaryIO, target: BinaryIO, bounds: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS
) -> FilterResult:
    """Write the harmless part of an archive as another one. Raises `ArchiveError` for one that is refused.

    Half of it can have been written by then.
    """
    found = FilterResult()
    known = _KnownEntries(bounds.names)
    try:
        with (
            BoundedTarReader(source) as old,
            tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as new,
        ):
            while (entry := old.next()) is not None:
                _count(entry, found, bounds)
                _copy_entry(entry, old, new, known, found)
                # It keeps all it has written.
                new.members.clear()  # type: ignore[attr-defined] # not in the stubs
    except tarfile.TarError:
        raise ArchiveError(
            "this is no tar archive, or not all of one", "make it with tar, uncompressed"
        ) from None
    except _PARSE_ERRORS:
        raise unreadable_entry_error() from None
    return found


def _count(entry: tarfile.TarInfo, found: FilterResult, bounds: ArchiveLimits) -> None:
    found.entries += 1
    found.size += entry.size if entry.isreg() and not entry.issparse() else 0
    if entry.size < 0:
        raise unreadable_entry_error()
    if found.entries > bounds.entries or found.size > bounds.size:
        raise ArchiveError(
            f"the archive holds more than {bounds.entries} entries or {bounds.size} bytes",
            "make smaller ones",
        )


def _copy_entry(
    entry: tarfile.TarInfo,
    old: tarfile.TarFile,
    new: tarfile.TarFile,
    known: _KnownEntries,
    found: FilterResult,
) -> None:
    name = _name(entry.name)
    plain = _plain_entry(entry, name)
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
    """The name as it is written on, `.` for the folder itself. Raises `ArchiveError`."""
    parts = [part for part in raw.split("/") if part not in ("", ".")]
    is_odd = not raw or raw.startswith("/") or ".." in parts or "\0" in raw or len(raw) > _MAX_PATH_LENGTH
    if is_odd or any(len(part.encode("utf-8", "surrogateescape")) > _MAX_PATH_PART_BYTES for part in parts):
        raise ArchiveError(
            "the archive holds a name that leads out of it", "make it of a folder, with relative names"
        )
    return "/".join(parts) or "."


def _plain_entry(entry: tarfile.TarInfo, name: str) -> tarfile.TarInfo | None:
    """The entry without all that is not needed; None for one that is left out."""
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
        # Both names mean one file, so which of them is the link does not matter.
        plain.type, plain.linkname = tarfile.LNKTYPE, _name(entry.linkname)
    else:
        return None
    return plain


def _stays_inside(name: str, target: str) -> bool:
    """Whether a link leads to a place below the folder that the archive is of."""
    if not target or target.startswith("/") or "\0" in target or len(target) > _MAX_PATH_LENGTH:
        return False
    # Not by folding alone: `a/../..` leads elsewhere where `a` is a link. So only those that climb at their
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
    """What is where, by name."""

    def __init__(self, room: int) -> None:
        self._kinds: dict[str, Kind] = {}
        self._room = room

    def get(self, name: str) -> Kind | None:
        return self._kinds.get(name)

    def add(self, name: str, kind: Kind) -> None:
        """Raises `ArchiveError` where there is no room for one more."""
        if name not in self._kinds:
            self._room -= len(name)
            if self._room < 0:
                raise ArchiveError("the archive holds too many long names", "make smaller ones")
        self._kinds[name] = kind


def _check_place(name: str, plain: tarfile.TarInfo, known: _KnownEntries) -> None:
    """Refuse what would be written through something else; remember what is there now."""
    kind: Kind = "folder" if plain.isdir() else "link" if plain.issym() else "file"
    there = known.get(name)
    if there is not None and not there == kind == "folder":
        raise ArchiveError("the archive holds one name twice", "make it with tar, of what is there once")
    if plain.islnk() and known.get(plain.linkname) != "file":
        raise ArchiveError("the archive links to what it does not hold", "make it with tar")
    above = dirname(name)
    while above:
        if known.get(above) not in (None, "folder"):
            raise ArchiveError("the archive writes through a link or a file", "make it with tar")
        known.add(above, "folder")
        above = dirname(above)
    known.add(name, kind)


# A tar archive, read with Python's own library, and no more of it in memory than people need.
#
# The library reads whatever describes an entry as a whole, before anybody can judge the entry: names, keys,
# maps of holes, one after the other and each of any size. So their sizes, their keys and their number are
# looked at before it reads them. Maps of holes are not read at all: what has one is only marked as a file
# with
# holes.
#
# It is read forwards only, so that it can come from a pipe.
_KEYED_TYPES: Final = frozenset({tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE})
_DESCRIBING_TYPES: Final = frozenset({*_KEYED_TYPES, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK})
_MAX_DESCRIPTION_BYTES: Final = 1024 * 1024
"""Bytes that describe one entry."""
_MAX_GLOBAL_HEADER_BYTES: Final = 64 * 1024
"""Characters of what is said for all entries: it is read again at every one."""
_MAX_DESCRIPTION_PARTS: Final = 20
"""That describe one entry. The library goes deeper by some calls for each."""
_MAX_KEYS: Final = 100
"""In one part, and of what is said for all entries."""
_MAX_LENGTH_DIGITS: Final = 8
_MIN_RECORD_BYTES: Final = 5
_SPARSE_EXTENDED_OFFSET: Final = 504
"""Where a block of a map of holes says whether another one follows."""
_READ_BYTES: Final = 64 * 1024


class BoundedTarReader(tarfile.TarFile):
    """An archive from its beginning to its end. Raises `ArchiveError`, and whatever the library does."""

    def __init__(self, source: BinaryIO) -> None:
        self.source = _ForwardReader(source)
        self._parts = self._described = 0
        super().__init__(fileobj=self.source, tarinfo=_CheckedEntry)  # type: ignore[arg-type] # it is file enough

    def next(self) -> tarfile.TarInfo | None:
        """Return the next entry, None behind the last one."""
        self._parts = self._described = 0
        entry = super().next()
        # It keeps all it has read, for those who want to go back.
        self.members.clear()  # type: ignore[attr-defined] # not in the stubs
        if sum(len(name) + len(value) for name, value in self.pax_headers.items()) > _MAX_GLOBAL_HEADER_BYTES:
            raise unreadable_entry_error()
        return entry

    def check_size(self, part: tarfile.TarInfo) -> None:
        """Refuse what describes an entry where it is too much, before it is read."""
        self._parts += 1
        self._described += part.size
        if part.size < 0 or self._parts > _MAX_DESCRIPTION_PARTS or self._described > _MAX_DESCRIPTION_BYTES:
            raise unreadable_entry_error()
        if part.type in _KEYED_TYPES:
            keys = _count_keys(self.source.look(part.size))
            if keys + len(self.pax_headers) > _MAX_KEYS:
                raise unreadable_entry_error()


class _CheckedEntry(tarfile.TarInfo):
    """Looked at before the library reads on, and read without maps of holes."""

    def _proc_member(self, reader: BoundedTarReader) -> tarfile.TarInfo:
        """Where subclasses are to begin, as the library says."""
        if self.type in _DESCRIBING_TYPES:
            reader.check_size(self)
        return super()._proc_member(reader)  # type: ignore[misc, no-any-return] # not in the stubs

    def _proc_sparse(self, reader: BoundedTarReader) -> tarfile.TarInfo:
        """Go past a map in blocks of its own, which stand before the contents."""
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
        entry.sparse = []  # type: ignore[assignment] # that is how the library knows one

    # The three ways to say it with keys; the map of the third would be read from the contents.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _mark


class _ForwardReader:
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
        while place > self._at and self.read(min(place - self._at, _READ_BYTES)):
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


def _count_keys(data: bytes) -> int:
    """How many records there are; the library keeps each. Raises `ArchiveError`."""
    at = count = 0
    while at < len(data) and data[at] and count <= _MAX_KEYS:
        length, space, _ = data[at : at + _MAX_LENGTH_DIGITS].partition(b" ")
        if not space or not length.isdigit() or int(length) < _MIN_RECORD_BYTES:
            raise unreadable_entry_error()
        at += int(length)
        count += 1
    return count


def unreadable_entry_error() -> ArchiveError:
    """Tell that an entry is not as people's are."""
    return ArchiveError("the archive holds an entry that cannot be read", "make it with tar")
