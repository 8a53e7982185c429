"""Private files: read, created once, and written in one step.

Keys, passwords and the list of trusted rule files are private: only their owner may reach them. A file is
judged by its open descriptor, so that no other file can take its place between the check and the read, and
it is written beside its place first, so that a crash leaves the old file or the new one, never half of one.

Errors name the path and never quote the content.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from egress.errors import UnreadableError, reason_of

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
_OTHERS_MASK: Final = stat.S_IRWXG | stat.S_IRWXO
# O_NONBLOCK: opening a pipe must not wait for a writer.
_READ_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_private(path: Path, max_bytes: int, cure: str, *, is_named: bool = False) -> bytes:
    """Return at most `max_bytes` of a private file.

    `cure` ends the hint of each error. `is_named` is for a path that an operator gives: mounted secrets are
    often links, which are followed then, and root may read the file of the user it administers.

    Raises `FileNotFoundError`, and `UnreadableError` for a file that is not plain, not this user's, or open
    to other users.
    """
    try:
        descriptor = os.open(path, _READ_FLAGS | (0 if is_named else os.O_NOFOLLOW))
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableError(f"{path} is not a regular file", cure)
            refuse_others(path, status, cure, is_root_allowed=is_named)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(max_bytes)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _failure(path, "read", error, cure) from None


def read_mounted(path: Path, max_bytes: int, cure: str) -> bytes:
    """Return at most `max_bytes` of a private file that a cluster mounts.

    Such a file is a link, belongs to root, and is readable by one group of this process. Raises
    `FileNotFoundError`, and `UnreadableError` for a file that anybody else may read or change.
    """
    try:
        with os.fdopen(os.open(path, _READ_FLAGS), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableError(f"{path} is not a regular file", cure)
            if status.st_uid not in {0, os.geteuid()}:
                raise UnreadableError(f"{path} belongs to another user", cure)
            is_own_group = status.st_gid in {os.getegid(), *os.getgroups()}
            if status.st_mode & (_OTHERS_MASK if not is_own_group else _OTHERS_MASK & ~stat.S_IRGRP):
                raise UnreadableError(
                    f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):04o})",
                    f"mount it with mode 0440, or {cure}",
                )
            return file.read(max_bytes)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _failure(path, "read", error, cure) from None


def read_or_create_private(
    path: Path, make: Callable[[], bytes], max_bytes: int, cure: str, *, is_named: bool = False
) -> bytes:
    """Return at most `max_bytes` of a private file, which `make` fills where there is none yet.

    If another process creates the file first, its content counts. Raises `UnreadableError`.
    """
    try:
        return read_private(path, max_bytes, cure, is_named=is_named)
    except FileNotFoundError:
        pass
    try:
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        write_atomically(path, make(), replace=False)
    except OSError as error:
        raise _failure(path, "made", error, cure) from None
    try:
        return read_private(path, max_bytes, cure, is_named=is_named)
    except FileNotFoundError as error:
        # A link that leads nowhere takes the name.
        raise _failure(path, "read", error, cure) from None


def write_atomically(path: Path, data: bytes, mode: int = FILE_MODE, *, replace: bool) -> bool:
    """Write a file in one step, safely on the disk; the folder must exist.

    Returns False when the name is taken and `replace` is not set. A link in the place of the file is
    replaced, never followed. Raises `OSError`.
    """
    with _scratch_file(path.parent, data, mode) as scratch:
        if replace:
            scratch.replace(path)
        else:
            try:
                # Unlike a rename, a hard link fails when another process was first.
                path.hardlink_to(scratch)
            except FileExistsError:
                return False
    _sync_folder(path.parent)
    return True


def refuse_others(
    path: Path, status: os.stat_result, cure: str, mode: int = FILE_MODE, *, is_root_allowed: bool = False
) -> None:
    """Raise `UnreadableError` when a file or folder is another user's, or open to other users."""
    user = os.geteuid()
    if status.st_uid != user and not (is_root_allowed and user == 0):
        raise UnreadableError(
            f"{path} belongs to another user", f"run this as the user who owns it, or {cure}"
        )
    if status.st_mode & _OTHERS_MASK:
        raise UnreadableError(
            f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):04o})",
            f"`chmod {mode:o} {path}` if nobody else can have read or changed it, or {cure}",
        )


def _failure(path: Path, act: str, error: OSError, cure: str) -> UnreadableError:
    return UnreadableError(
        f"{path} cannot be {act}: {reason_of(error)}", f"check its owner and its mode, or {cure}"
    )


@contextmanager
def _scratch_file(folder: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Write the bytes to a new file in the folder, which is removed at the end if it still has its name."""
    # The file is 0600 from its first moment.
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
