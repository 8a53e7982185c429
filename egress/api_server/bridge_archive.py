"""The workspace of a sandbox as the archive that the client of the bridge keeps, and sends back later.

The client accepts no hard links when it sends an archive back, and tools of packages make many. So each
second name of a file becomes a file of its own.
"""

from __future__ import annotations

import tarfile
from collections.abc import Collection, Iterator
from typing import BinaryIO, cast

from egress.runtime.disk_space import SpaceCheckedFile
from egress.runtime.errors import SpecError


def read_excludes(text: str) -> frozenset[str]:
    """Return the paths that an archive leaves out, from the query. Raises `SpecError`."""
    found = {part.strip("/").removeprefix("./") for part in text.split(",")} - {""}
    if any(".." in path.split("/") for path in found):
        raise SpecError("a path to exclude leads out of the workspace", "name paths in it, without ..")
    return frozenset(found)


def write_portable(source: BinaryIO, target: BinaryIO, excludes: Collection[str]) -> None:
    """Write a filtered archive again: without these paths, and with files in place of hard links."""
    linked = {entry.linkname for entry in _entries(source) if entry.islnk()}
    places: dict[str, tuple[int, int]] = {}
    checked_file = cast("BinaryIO", SpaceCheckedFile(target))
    with tarfile.open(fileobj=checked_file, mode="w|", format=tarfile.PAX_FORMAT) as new:
        for entry in _entries(source):
            if entry.isreg() and entry.name in linked:
                places[entry.name] = (entry.offset_data, entry.size)
            if _is_excluded(entry.name, excludes):
                continue
            place = entry.offset_data
            if entry.islnk():
                place, entry.size = places[entry.linkname]
                entry.type, entry.linkname = tarfile.REGTYPE, ""
            source.seek(place)
            new.addfile(entry, source if entry.isreg() else None)
            # tarfile keeps every member it has written in memory.
            new.members.clear()  # type: ignore[attr-defined] # not in the stubs


def _entries(source: BinaryIO) -> Iterator[tarfile.TarInfo]:
    """The entries of an archive that `filter_archive` wrote, one at a time."""
    source.seek(0)
    with tarfile.open(fileobj=source, mode="r:") as old:
        while (entry := old.next()) is not None:
            old.members.clear()  # type: ignore[attr-defined] # as above
            yield entry


def _is_excluded(name: str, excludes: Collection[str]) -> bool:
    parts = name.split("/")
    return any("/".join(parts[:count]) in excludes for count in range(1, len(parts) + 1))
