"""Tar archives from `Runtime.get` as files and folders of the host, and archives that are files of the host.

What comes out of a sandbox has been sifted by the runtime, and is unpacked as data all the same: nothing is
written outside of the folder that was named, and through no link that is there. Nor does a link on the way to
that folder lead elsewhere that others can have made; see `named`.
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
from typing import IO, BinaryIO

from egress.errors import UnreadableError
from egress.runtime.disk_space import SpaceCheckedFile
from egress.runtime.errors import ArchiveError
from egress.runtime.tar_filter import filter_archive
from egress.sandbox.host_paths import open_host_path


def unpack_folder(archive: BinaryIO, target: Path) -> None:
    """Write what an archive holds into a folder, which is made. Raises `UnreadableError`, `ArchiveError`."""
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

    The library opens by path what it has judged by path. Where the folder is one that a sandbox can write as
    well, a link can be there by then. So folders are entered one by one, and files are renamed into place.
    """
    *above, name = PurePosixPath(entry.name).parts or (".",)
    parent = _enter_folders(top, above)
    new = f".egress-{secrets.token_hex(8)}"
    try:
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
        # Also where two names of one file were to change places: then nothing is done.
        with suppress(OSError):
            os.unlink(new, dir_fd=parent)
        os.close(parent)


def _enter_folders(top: int, parts: Sequence[str]) -> int:
    """Go down into folders, which are made, and through no link; returns the last one, open."""
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
    """Write the one file of an archive to a path, all of it or none. Raises as `unpack_folder`."""
    with _write_errors(target), tarfile.open(fileobj=archive, mode="r|") as tar:
        entry = tar.next()
        data = tar.extractfile(entry) if entry is not None else None
        if entry is None or data is None:
            raise ArchiveError("there is no file in the archive", "copy out the folder that holds it")
        write_file(data, target, mode=entry.mode & 0o777)


def write_file(data: IO[bytes], target: Path, mode: int = 0o600) -> None:
    """Write a file of the host, all of it or none."""
    with _write_errors(target):
        with open_host_path(target.parent) as way:
            folder = way.open_folder()
        new = f".egress-{secrets.token_hex(8)}"
        try:
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
    """Write an archive to a file of the host, named or open."""
    if isinstance(target, str | Path):
        write_file(archive, Path(target))
    else:
        shutil.copyfileobj(archive, target)


@contextmanager
def open_archive(source: str | Path | BinaryIO) -> Iterator[BinaryIO]:
    """An archive of the host, named or open. Raises `ArchiveError` for what is none, `UnreadableError`."""
    if not isinstance(source, str | Path):
        yield source
        return
    try:
        with open_host_path(Path(source)) as way:
            file = os.fdopen(way.open_file(os.O_RDONLY), "rb")
    except OSError as error:
        raise UnreadableError(
            f"{source} cannot be read: {error.strerror}", "see whether it is there, and may be read"
        ) from None
    with file:
        yield file


@contextmanager
def filtered_archive(archive: BinaryIO) -> Iterator[BinaryIO]:
    """The harmless part of an archive. Raises `ArchiveError` for one that is refused."""
    with tempfile.TemporaryFile() as file:
        filter_archive(archive, file)
        file.seek(0)
        yield file


@contextmanager
def _write_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except tarfile.TarError:
        raise ArchiveError(
            f"what came does not fit into {target}", "take a folder that is empty, or another one"
        ) from None
    except OSError as error:
        raise UnreadableError(
            f"{target} cannot be written: {error.strerror}", "see whether its folder is there, and its room"
        ) from None
