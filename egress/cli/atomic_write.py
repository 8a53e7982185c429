"""Write new files atomically, and never replace a file without being asked."""

from __future__ import annotations

import stat
from pathlib import Path

from egress.errors import ContentError, UnreadableError, reason_of
from egress.private_file import write_atomically

FILE_MODE = 0o644
"""Readable by all: files written here hold no secret."""


def write(path: Path, text: str, *, replace: bool, option: str = "--output") -> None:
    """Write `text` to `path` atomically. `option` is the option that named the path, for hints.

    Raises `ContentError` if the file exists and `replace` is false, `UnreadableError` if it cannot be
    written. Only a regular file or a symbolic link is ever replaced; the link is not followed.
    """
    try:
        _refuse_taken(path, replace=replace, option=option)
        data = text.encode("utf-8")
        if not replace:
            try:
                if not write_atomically(path, data, FILE_MODE, replace=False):
                    raise _taken(path, option)
            except OSError:
                # Some file systems have no hard links: then the name must still be free a moment before.
                _refuse_taken(path, replace=False, option=option)
            else:
                return
        write_atomically(path, data, FILE_MODE, replace=True)
    except OSError as error:
        raise _unwritable(path, error, option) from None
    except ValueError:
        raise UnreadableError(f"{path} is not a path", "a path cannot contain a NUL character") from None


def _refuse_taken(path: Path, *, replace: bool, option: str) -> None:
    try:
        # A link is replaced and not followed: its target may be any file of this user.
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise UnreadableError(f"{path} is a directory", f"name a file inside it with {option}")
    # Replacing a device or a pipe, such as /dev/null, would remove it for every program.
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise UnreadableError(f"{path} is not a regular file", f"name another file with {option}")
    if not replace:
        raise _taken(path, option)


def _taken(path: Path, option: str) -> ContentError:
    return ContentError(
        f"{path} exists and was not changed", f"use --force to replace it, or {option} to name another file"
    )


def _unwritable(path: Path, error: OSError, option: str) -> UnreadableError:
    if isinstance(error, FileNotFoundError):
        return UnreadableError(f"the directory {path.parent} does not exist", "create it first")
    return UnreadableError(
        f"{path} cannot be written: {reason_of(error)}", f"name another file with {option}"
    )
