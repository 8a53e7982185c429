"""Unpacks tar archives of `Runtime.get` on the host, and opens archives of the host.

The runtime has filtered archives from a sandbox; they are still unpacked as hostile data: no file outside of
the named folder is written, and none through an existing link. Links on the way to that folder that other
people can have made are refused; see `open_host_path`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

from egress.errors import UnreadableError
from egress.runtime.disk_space import SpaceCheckedFile
from egress.runtime.errors import ArchiveError
from egress.runtime.tar_filter import filter_archive
from egress.sandbox.host_paths import open_host_path


def unpack_folder(archive: BinaryIO, target: Path) -> None:
    """Unpack an archive into a folder, created if missing. Raises `UnreadableError`, `ArchiveError`."""
    with _write_errors(target):
        with open_host_path(target) as way:
            top = way.open_folder(make=True)
        try:
            with tarfile.open(fileobj=archive, mode="r|") as tar:
                for entry in tar:
                    _write_entry(tar, tarfile.data_filter(entry, str(target)), top)
        finally:
            os.close(top)


def _write_entry(tar: tarfile.TarFile, entry: tarfile.TarInfo, top: int) -> None:
    """Write one entry below an open folder.

    tarfile checks and opens by path. If a sandbox can write the folder as well, a link may appear in between.
    So folders are entered one by one, and files are renamed into place.
    """
    *above, name = PurePosixPath(entry.name).parts or (".",)
    parent = _enter_folders(top, above)
    # Under a random name first: the rename is atomic, and replaces a link instead of following it.
    new = f".egress-{secrets.token_hex(8)}"
    try:
        # tarfile's data filter has refused devices and paths outside; links are created, never followed.
        if entry.isdir():
            os.close(_enter_folders(parent, [name]))
            return
        if entry.issym():
            os.symlink(entry.linkname, new, dir_fd=parent)
        elif entry.islnk():
            _link(top, entry.linkname, parent, new)
        else:
            _write(tar, entry, parent, new)
        os.replace(new, name, src_dir_fd=parent, dst_dir_fd=parent)
    finally:
        # The temporary name is left over if both names are links to one file: the rename then does nothing.
        with suppress(OSError):
            os.unlink(new, dir_fd=parent)
        os.close(parent)


def _enter_folders(top: int, parts: Sequence[str]) -> int:
    """Enter folders, created if missing, but no link; returns the last one, open."""
    at = os.dup(top)
    for part in parts:
        try:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        except NotADirectoryError:
            raise tarfile.ExtractError from None
        finally:
            os.close(at)
        at = below
    return at


def _link(top: int, there: str, parent: int, new: str) -> None:
    *above, name = PurePosixPath(there).parts or (".",)
    holder = _enter_folders(top, above)
    try:
        os.link(name, new, src_dir_fd=holder, dst_dir_fd=parent, follow_symlinks=False)
    finally:
        os.close(holder)


def _write(tar: tarfile.TarFile, entry: tarfile.TarInfo, parent: int, new: str) -> None:
    number = _create_file(new, parent)
    with os.fdopen(number, "wb") as file:
        data = tar.extractfile(entry)
        if data is not None:
            shutil.copyfileobj(data, SpaceCheckedFile(file))
        file.flush()
        os.fchmod(number, entry.mode & 0o777)
        os.utime(number, (entry.mtime, entry.mtime))


def _create_file(name: str, folder: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, 0o600, dir_fd=folder)


def unpack_file(archive: BinaryIO, target: Path) -> None:
    """Write the only file of an archive to a path, atomically. Raises as `unpack_folder`."""
    with _write_errors(target), tarfile.open(fileobj=archive, mode="r|") as tar:
        entry = tar.next()
        data = tar.extractfile(entry) if entry is not None else None
        if entry is None or data is None:
            raise ArchiveError("the archive holds no file", "copy out the folder above it")
        write_file(data, target, mode=entry.mode & 0o777)


def write_file(data: IO[bytes], target: Path, mode: int = 0o600) -> None:
    """Write a file of the host atomically."""
    with _write_errors(target):
        with open_host_path(target.parent) as way:
            folder = way.open_folder()
        new = f".egress-{secrets.token_hex(8)}"
        try:
            # Mode 0600 until the content is complete, then the requested mode.
            with os.fdopen(_create_file(new, folder), "wb") as file:
                shutil.copyfileobj(data, SpaceCheckedFile(file))
                file.flush()
                os.fchmod(file.fileno(), mode)
            os.replace(new, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with suppress(OSError):
                os.unlink(new, dir_fd=folder)
            os.close(folder)


def write_archive(archive: BinaryIO, target: str | Path | BinaryIO) -> None:
    """Write an archive to a file of the host, by path or to an open file."""
    if isinstance(target, str | Path):
        write_file(archive, Path(target))
    else:
        shutil.copyfileobj(archive, target)


@contextmanager
def open_archive(source: str | Path | BinaryIO) -> Iterator[BinaryIO]:
    """An archive of the host, by path or open. Raises `UnreadableError`."""
    if not isinstance(source, str | Path):
        yield source
        return
    try:
        with open_host_path(Path(source)) as way:
            file = os.fdopen(way.open_file(os.O_RDONLY), "rb")
    except OSError as error:
        raise UnreadableError(
            f"cannot read {source}: {error.strerror}", "check that it exists and is readable"
        ) from None
    with file:
        yield file


@contextmanager
def filtered_archive(archive: BinaryIO) -> Iterator[BinaryIO]:
    """The harmless part of an archive. Raises `ArchiveError` for a hostile one."""
    with tempfile.TemporaryFile() as file:
        filter_archive(archive, cast("BinaryIO", SpaceCheckedFile(file)))
        file.seek(0)
        yield file


@contextmanager
def _write_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except tarfile.TarError:
        raise ArchiveError(f"the archive conflicts with files in {target}", "use an empty folder") from None
    except OSError as error:
        raise UnreadableError(
            f"cannot write {target}: {error.strerror}", "check its folder and the free space"
        ) from None
