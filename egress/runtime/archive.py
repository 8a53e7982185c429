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
from egress.runtime.headers import Reader, unreadable

_PERMISSIONS: Final = 0o777
_LATEST: Final = (1 << 33) - 1
_LONGEST: Final = 4096
_LONGEST_PART: Final = 255
_MOST_TOLD: Final = 100
_STUMBLES: Final = (
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
class Bounds:
    """How much an archive may hold."""

    entries: int = 1_000_000
    size: int = 16 * 1024**3
    """Bytes of all files together."""
    names: int = 128 * 1024**2
    """Characters of all names that are kept, folders above entries among them."""


@dataclass(slots=True)
class Sifted:
    """What was found."""

    entries: int = 0
    size: int = 0
    left_out: list[str] = field(default_factory=list)
    """Names of what was not passed on, the first hundred."""
    omitted: int = 0
    """How many there were."""


USUAL: Final = Bounds()


def sift(source: BinaryIO, target: BinaryIO, bounds: Bounds = USUAL) -> Sifted:
    """Write the harmless part of an archive as another one. Raises `ArchiveError` for one that is refused.

    Half of it can have been written by then.
    """
    found = Sifted()
    known = _Known(bounds.names)
    try:
        with (
            Reader(source) as old,
            tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as new,
        ):
            while (entry := old.next()) is not None:
                _count(entry, found, bounds)
                _pass_on(entry, old, new, known, found)
                # It keeps all it has written.
                new.members.clear()  # type: ignore[attr-defined] # not in the stubs
    except tarfile.TarError:
        raise ArchiveError(
            "this is no tar archive, or not all of one", "make it with tar, uncompressed"
        ) from None
    except _STUMBLES:
        raise unreadable() from None
    return found


def _count(entry: tarfile.TarInfo, found: Sifted, bounds: Bounds) -> None:
    found.entries += 1
    found.size += entry.size if entry.isreg() and not entry.issparse() else 0
    if entry.size < 0:
        raise unreadable()
    if found.entries > bounds.entries or found.size > bounds.size:
        raise ArchiveError(
            f"the archive holds more than {bounds.entries} entries or {bounds.size} bytes",
            "make smaller ones",
        )


def _pass_on(
    entry: tarfile.TarInfo, old: tarfile.TarFile, new: tarfile.TarFile, known: _Known, found: Sifted
) -> None:
    name = _name(entry.name)
    plain = _plain(entry, name)
    if plain is None:
        found.omitted += 1
        if len(found.left_out) < _MOST_TOLD:
            found.left_out.append(name)
        return
    _place(name, plain, known)
    if plain.isreg():
        new.addfile(plain, old.extractfile(entry))
    else:
        new.addfile(plain)


def _name(raw: str) -> str:
    """The name as it is written on, `.` for the folder itself. Raises `ArchiveError`."""
    parts = [part for part in raw.split("/") if part not in ("", ".")]
    is_odd = not raw or raw.startswith("/") or ".." in parts or "\0" in raw or len(raw) > _LONGEST
    if is_odd or any(len(part.encode("utf-8", "surrogateescape")) > _LONGEST_PART for part in parts):
        raise ArchiveError(
            "the archive holds a name that leads out of it", "make it of a folder, with relative names"
        )
    return "/".join(parts) or "."


def _plain(entry: tarfile.TarInfo, name: str) -> tarfile.TarInfo | None:
    """The entry without all that is not needed; None for one that is left out."""
    plain = tarfile.TarInfo(name)
    plain.mtime = min(max(int(entry.mtime), 0), _LATEST)
    plain.mode = entry.mode & _PERMISSIONS
    if entry.isdir():
        plain.type = tarfile.DIRTYPE
    elif entry.isreg() and not entry.issparse() and name != ".":
        plain.type, plain.size = tarfile.REGTYPE, entry.size
    elif entry.issym() and name != "." and _stays(name, entry.linkname):
        plain.type, plain.linkname = tarfile.SYMTYPE, entry.linkname
    elif entry.islnk() and _is_inside(entry.linkname) and name != ".":
        # Both names mean one file, so which of them is the link does not matter.
        plain.type, plain.linkname = tarfile.LNKTYPE, _name(entry.linkname)
    else:
        return None
    return plain


def _stays(name: str, target: str) -> bool:
    """Whether a link leads to a place below the folder that the archive is of."""
    if not target or target.startswith("/") or "\0" in target or len(target) > _LONGEST:
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


class _Known:
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


def _place(name: str, plain: tarfile.TarInfo, known: _Known) -> None:
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
