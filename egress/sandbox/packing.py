"""Files and folders of the host as tar archives, for `Runtime.put`.

A folder can be one that a sandbox sees as well, and writes while it is read. What is a file when it is looked
at, can be a link to a file of the host when it is opened by its path. So below the folder that was named
nothing is opened by a path: folders are entered one by one, and what was opened is what is looked at.
"""

from __future__ import annotations

import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from egress.errors import UnreadableError
from egress.runtime.disk_space import SpaceCheckedFile
from egress.runtime.errors import ArchiveError
from egress.runtime.tar_filter import DEFAULT_ARCHIVE_LIMITS, ArchiveLimits
from egress.sandbox.host_paths import open_host_path

if TYPE_CHECKING:
    from _typeshed import SupportsRead

_MAX_DEPTH: Final = 200
"""Folders in folders; each is held open, and a process has not many more descriptors."""
# Waits for nobody at a pipe, and becomes nobody's terminal.
_READ_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_READ_BELOW_FLAGS: Final = _READ_FLAGS | os.O_NOFOLLOW


@contextmanager
def pack(source: Path, name: str = "", bounds: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS) -> Iterator[BinaryIO]:
    """An archive of what a folder holds, or of a file under this name.

    Raises `UnreadableError`, `ArchiveError` for more than an archive may hold, and `SandboxStateError` where
    there is no room to make one.
    """
    with tempfile.TemporaryFile() as file:
        try:
            # A link that a person names is meant as what it leads to.
            room = cast("BinaryIO", SpaceCheckedFile(file))
            with (
                open_host_path(source) as way,
                _BoundedTarWriter.open(fileobj=room, mode="w|", format=tarfile.PAX_FORMAT) as tar,
            ):
                tar.bounds = bounds
                if name:
                    _add_file(tar, way.open_file(_READ_FLAGS), name)
                else:
                    _add_all(tar, way.open_folder(), "", _MAX_DEPTH)
        except OSError as error:
            reason = (error.strerror or "it was changed meanwhile").lower()
            raise UnreadableError(
                f"{source} cannot be read: {reason}", "see whether it is there, and may be read"
            ) from None
        file.seek(0)
        yield file


class _BoundedTarWriter(tarfile.TarFile):
    """An archive that is written, up to where it would be refused."""

    bounds = DEFAULT_ARCHIVE_LIMITS
    entries = size = 0

    def addfile(self, tarinfo: tarfile.TarInfo, fileobj: SupportsRead[bytes] | None = None) -> None:
        """Raises `ArchiveError` before anything of one too many is read."""
        self.entries += 1
        self.size += tarinfo.size
        if self.entries > self.bounds.entries or self.size > self.bounds.size:
            raise ArchiveError(
                f"there are more than {self.bounds.entries} entries or {self.bounds.size} bytes to be copied",
                "copy less at a time; a file with holes counts with all of its size",
            )
        super().addfile(tarinfo, fileobj)


def _add_all(tar: tarfile.TarFile, folder: int, above: str, deepest: int) -> None:
    """Add what an open folder holds, and close it."""
    try:
        if not deepest:
            raise OSError(0, f"there are more than {_MAX_DEPTH} folders in one another")
        for name in sorted(os.listdir(folder)):
            _add(tar, folder, name, above, deepest)
    finally:
        os.close(folder)


def _add(tar: tarfile.TarFile, folder: int, name: str, above: str, deepest: int) -> None:
    there = f"{above}{name}"
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        _add_entry(tar, there, found, tarfile.SYMTYPE, os.readlink(name, dir_fd=folder))
    elif stat.S_ISDIR(found.st_mode):
        below = os.open(name, _READ_BELOW_FLAGS | os.O_DIRECTORY, dir_fd=folder)
        _add_entry(tar, there, os.fstat(below), tarfile.DIRTYPE)
        _add_all(tar, below, f"{there}/", deepest - 1)
    elif stat.S_ISREG(found.st_mode):
        _add_file(tar, os.open(name, _READ_BELOW_FLAGS, dir_fd=folder), there)


def _add_entry(tar: tarfile.TarFile, name: str, found: os.stat_result, kind: bytes, link: str = "") -> None:
    """Add what has no contents."""
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.linkname = link
    entry.mode = stat.S_IMODE(found.st_mode)
    entry.mtime = found.st_mtime
    tar.addfile(entry)


def _add_file(tar: tarfile.TarFile, number: int, name: str) -> None:
    """Add an open file, and close it. A further name of one that was added becomes a link to it."""
    with os.fdopen(number, "rb") as file:
        entry = tar.gettarinfo(arcname=name, fileobj=file)
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(0, "it is no file")
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        tar.addfile(entry, file if entry.isreg() else None)
