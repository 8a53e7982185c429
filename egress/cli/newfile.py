"""Writing a file that was not there: whole or not at all, and never over something unasked."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from egress.errors import ContentError, UnreadableError

MODE = 0o644
"""Readable by all: what is written here holds no secret."""


def write(path: Path, text: str, *, replace: bool) -> None:
    """Write `text` to `path` in one step.

    Raises `ContentError` when something stands there and `replace` is false, `UnreadableError` when it
    cannot be written. Only a plain file or a symbolic link is ever replaced, the link not followed.
    """
    try:
        _refuse_taken(path, replace=replace)
        scratch = _scratch(path.parent, text)
        try:
            _put(scratch, path, replace=replace)
        finally:
            scratch.unlink(missing_ok=True)
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        raise _unwritable(path, error) from None
    except ValueError:
        raise UnreadableError(f"{path} is not a path", "a path has no NUL character in it") from None


def _refuse_taken(path: Path, *, replace: bool) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise UnreadableError(f"{path} is a directory", f"name a file, such as {path / 'hosts.yaml'}")
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise UnreadableError(f"{path} is not a plain file", "name another one, or use --print")
    if not replace:
        raise _taken(path)


def _scratch(folder: Path, text: str) -> Path:
    """The text in a new file beside its destination, safely on the disk."""
    handle, name = tempfile.mkstemp(prefix=".egress-", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), MODE)
            os.fsync(file.fileno())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _put(scratch: Path, path: Path, *, replace: bool) -> None:
    if not replace:
        try:
            # A link refuses a name that was taken meanwhile; a rename would not.
            path.hardlink_to(scratch)
        except FileExistsError:
            raise
        except OSError:
            # Some file systems have no links; that nothing stood there was seen a moment ago.
            pass
        else:
            return
    scratch.replace(path)


def _taken(path: Path) -> ContentError:
    return ContentError(
        f"{path} exists and was left alone", "use --force to replace it, or --output to name another file"
    )


def _unwritable(path: Path, error: OSError) -> UnreadableError:
    if isinstance(error, FileNotFoundError):
        return UnreadableError(f"the directory {path.parent} does not exist", "make it first")
    reason = (error.strerror or type(error).__name__).lower()
    return UnreadableError(f"{path} cannot be written: {reason}", "name another file with --output")
