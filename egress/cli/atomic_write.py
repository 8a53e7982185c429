"""Writing a file that was not there: whole or not at all, and never over something unasked."""

from __future__ import annotations

import stat
from pathlib import Path

from egress.errors import ContentError, UnreadableError, reason_of
from egress.private_file import write_atomically

FILE_MODE = 0o644
"""Readable by all: what is written here holds no secret."""


def write(path: Path, text: str, *, replace: bool, option: str = "--output") -> None:
    """Write `text` to `path` in one step. `option` is how the path was named, for hints.

    Raises `ContentError` when something stands there and `replace` is false, `UnreadableError` when it
    cannot be written. Only a plain file or a symbolic link is ever replaced, the link not followed.
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
        raise UnreadableError(f"{path} is not a path", "a path has no NUL character in it") from None


def _refuse_taken(path: Path, *, replace: bool, option: str) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise UnreadableError(f"{path} is a directory", f"name a file in it with {option}")
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise UnreadableError(f"{path} is not a plain file", f"name another one with {option}")
    if not replace:
        raise _taken(path, option)


def _taken(path: Path, option: str) -> ContentError:
    return ContentError(
        f"{path} exists and was left alone", f"use --force to replace it, or {option} to name another file"
    )


def _unwritable(path: Path, error: OSError, option: str) -> UnreadableError:
    if isinstance(error, FileNotFoundError):
        return UnreadableError(f"the directory {path.parent} does not exist", "make it first")
    return UnreadableError(
        f"{path} cannot be written: {reason_of(error)}", f"name another file with {option}"
    )
