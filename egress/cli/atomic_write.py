"""Write new files atomically, and never replace a file without being asked."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from egress.errors import ContentError, UnreadableError

FILE_MODE = 0o644
"""Readable by all: files written here hold no secret."""


def write(path: Path, text: str, *, replace: bool, option: str = "--output") -> None:
    """Write `text` to `path` atomically. `option` is the option that named the path, for hints.

    Raises `ContentError` if the file exists and `replace` is false, `UnreadableError` if it cannot be
    written. Only a regular file or a symbolic link is ever replaced; the link is not followed.
    """
    try:
        _refuse_taken(path, replace=replace, option=option)
        scratch = _scratch(path.parent, text)
        try:
            _put(scratch, path, replace=replace)
        finally:
            scratch.unlink(missing_ok=True)
    except FileExistsError:
        raise _taken(path, option) from None
    except OSError as error:
        raise _unwritable(path, error, option) from None
    except ValueError:
        raise UnreadableError(f"{path} is not a path", "a path cannot contain a NUL character") from None


def _refuse_taken(path: Path, *, replace: bool, option: str) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise UnreadableError(f"{path} is a directory", f"name a file inside it with {option}")
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise UnreadableError(f"{path} is not a regular file", f"name another file with {option}")
    if not replace:
        raise _taken(path, option)


def _scratch(folder: Path, text: str) -> Path:
    """Write the text durably to a new file beside its destination."""
    handle, name = tempfile.mkstemp(prefix=".egress-", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), FILE_MODE)
            os.fsync(file.fileno())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _put(scratch: Path, path: Path, *, replace: bool) -> None:
    if not replace:
        try:
            # Unlike a rename, a link fails if the name was taken meanwhile.
            path.hardlink_to(scratch)
        except FileExistsError:
            raise
        except OSError:
            # Some file systems have no links; the name was free a moment ago.
            pass
        else:
            return
    scratch.replace(path)


def _taken(path: Path, option: str) -> ContentError:
    return ContentError(
        f"{path} exists and was not changed", f"use --force to replace it, or {option} to name another file"
    )


def _unwritable(path: Path, error: OSError, option: str) -> UnreadableError:
    if isinstance(error, FileNotFoundError):
        return UnreadableError(f"the directory {path.parent} does not exist", "create it first")
    reason = (error.strerror or type(error).__name__).lower()
    return UnreadableError(f"{path} cannot be written: {reason}", f"name another file with {option}")
