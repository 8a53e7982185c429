"""Packs files and folders of the host into tar archives, for `Runtime.put`.

The folder may be shared with a sandbox that writes it meanwhile: a name that is a file when checked may be a
link to a file of the host when opened. So below the named folder nothing is opened by path: folders are
entered one by one, and checks look at the opened file.
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
"""Nested folders; each holds a descriptor, and a process has few more."""
# Does not block on a pipe, and does not acquire a terminal.
_READ_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_READ_BELOW_FLAGS: Final = _READ_FLAGS | os.O_NOFOLLOW


@contextmanager
def pack(source: Path, name: str = "", limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS) -> Iterator[BinaryIO]:
    """An archive of a folder's content, or of a file under this name.

    Raises `UnreadableError`, `ArchiveError` beyond the limits, and `SandboxStateError` if the disk is too
    full for it.
    """
    with tempfile.TemporaryFile() as file:
        try:
            # A link that the user names means its target.
            checked_file = cast("BinaryIO", SpaceCheckedFile(file))
            with (
                open_host_path(source) as way,
                _BoundedTarWriter.open(fileobj=checked_file, mode="w|", format=tarfile.PAX_FORMAT) as tar,
            ):
                tar.limits = limits
                if name:
                    _add_file(tar, way.open_file(_READ_FLAGS), name)
                else:
                    _add_all(tar, way.open_folder(), "", _MAX_DEPTH)
        except OSError as error:
            reason = (error.strerror or "it changed meanwhile").lower()
            raise UnreadableError(
                f"cannot read {source}: {reason}", "check that it exists and is readable"
            ) from None
        file.seek(0)
        yield file


class _BoundedTarWriter(tarfile.TarFile):
    """A tar writer that stops at the limits of `filter_archive`."""

    limits = DEFAULT_ARCHIVE_LIMITS
    entries = size = 0

    def addfile(self, tarinfo: tarfile.TarInfo, fileobj: SupportsRead[bytes] | None = None) -> None:
        """Add an entry. Raises `ArchiveError` before reading one beyond the limits."""
        self.entries += 1
        self.size += tarinfo.size
        if self.entries > self.limits.entries or self.size > self.limits.size:
            raise ArchiveError(
                f"more than {self.limits.entries} entries or {self.limits.size} bytes to copy",
                "copy less at a time; a sparse file counts with its full size",
            )
        super().addfile(tarinfo, fileobj)


def _add_all(tar: tarfile.TarFile, folder: int, above: str, deepest: int) -> None:
    """Add the content of an open folder, and close the folder."""
    try:
        if not deepest:
            raise OSError(0, f"folders are nested more than {_MAX_DEPTH} deep")
        for name in sorted(os.listdir(folder)):
            _add(tar, folder, name, above, deepest)
    finally:
        os.close(folder)


def _add(tar: tarfile.TarFile, folder: int, name: str, above: str, deepest: int) -> None:
    there = f"{above}{name}"
    # The kind decides how to open; what was opened is checked again, because it may be replaced.
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
    """Add an entry without content."""
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.linkname = link
    entry.mode = stat.S_IMODE(found.st_mode)
    entry.mtime = found.st_mtime
    tar.addfile(entry)


def _add_file(tar: tarfile.TarFile, number: int, name: str) -> None:
    """Add an open file, and close it. A second name of an added file becomes a hard link."""
    with os.fdopen(number, "rb") as file:
        entry = tar.gettarinfo(arcname=name, fileobj=file)
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(0, "it is not a file")
        # Owners of this machine mean nothing in a sandbox, and names of users stay private.
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        tar.addfile(entry, file if entry.isreg() else None)
