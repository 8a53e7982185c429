"""Read the text of a rule file from any path.

Theory of operation. Trouble from the *environment* (no such file, no permission, not a file) raises
`UnreadableError`. Trouble *in* the file (too large, not UTF-8) is a finding with a place, like any other
mistake in the rules.

Reading never blocks and is bounded: pipes, devices and sockets are refused before they are opened, and at
most `MAX_FILE_BYTES` and one byte are read, even from a file that grows meanwhile.

Errors name the path and never quote the bytes: the path may lead to the wrong file.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from egress.errors import ContentError, UnreadableError, reason_of
from egress.types import Finding, Place, Severity

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES = 16 * 1024 * 1024

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# O_NONBLOCK: a pipe that took the place of the file must not make the proxy wait.
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_SAVE_HINT = "save it as UTF-8"


class NotTextError(ContentError):
    """The file is not the text of a rule file; `finding` says where and why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding), finding.hint)
        self.finding = finding


def read_text(path: Path) -> str:
    """Return the text of a rule file.

    Raises `UnreadableError` if there is no readable file, `NotTextError` if its content is not text. A UTF-8
    byte order mark is removed; line ends stay.
    """
    return _decoded(printable_path(path), _content(path))


def printable_path(path: Path) -> str:
    """Make a path fit for a message: a terminal must not get the control characters of a file name."""
    return "".join(character if character.isprintable() else "?" for character in str(path))


def unreadable_error(path: Path, error: OSError) -> UnreadableError:
    """Describe the operating system's error at `path` in plain words."""
    name = printable_path(path)
    if isinstance(error, FileNotFoundError):
        return UnreadableError(f"file not found: {name}", "check the name, or create it with `egress init`")
    if isinstance(error, PermissionError):
        return UnreadableError(f"permission denied: {name}", "give your user permission to read it")
    if isinstance(error, NotADirectoryError):
        return UnreadableError(f"a part of {name} is not a directory", "check the path")
    return UnreadableError(f"{name} cannot be read: {reason_of(error)}", "check the path")


# Bytes ----------------------------------------------------------------------------------------


def _content(path: Path) -> bytes:
    try:
        _refuse_other_kinds(path, path.stat())
        with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as file:
            # Checked again, because the path may lead to another file by now.
            _refuse_other_kinds(path, os.fstat(file.fileno()))
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise unreadable_error(path, error) from None
    except ValueError:
        raise UnreadableError(
            f"{printable_path(path)} is not a path", "a path cannot contain a NUL character"
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise _too_large(path)
    return data


def _refuse_other_kinds(path: Path, status: os.stat_result) -> None:
    """Refuse anything but a regular file of limited size, by its status alone."""
    if stat.S_ISDIR(status.st_mode):
        raise UnreadableError(f"{printable_path(path)} is a directory", "name a file")
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError(
            f"{printable_path(path)} is a pipe, a socket or a device, which is never read",
            "name a regular file",
        )
    if status.st_size > MAX_FILE_BYTES:
        raise _too_large(path)


def _too_large(path: Path) -> NotTextError:
    place = Place(printable_path(path), 1, 1)
    message = f"the file is larger than {MAX_FILE_BYTES // 1024**2} MiB"
    return NotTextError(Finding(place, Severity.ERROR, message, "split it into several files"))


# Text -----------------------------------------------------------------------------------------


def _decoded(name: str, data: bytes) -> str:
    if data.startswith(_UTF16_MARKS):
        raise _not_text(name, data, 0, "the file is UTF-16", _SAVE_HINT)
    # Some editors add the mark to UTF-8, too; it means nothing and would shift every column.
    data = data.removeprefix(_UTF8_MARK)
    nul = data.find(b"\0")
    if nul >= 0:
        raise _not_text(
            name, data, nul, "the file contains a NUL byte", f"if this is a text file, {_SAVE_HINT}"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"the byte at offset {error.start} is not UTF-8"
        raise _not_text(name, data, error.start, message, _SAVE_HINT) from None


def _not_text(name: str, data: bytes, offset: int, message: str, hint: str) -> NotTextError:
    """Return the error for the byte at `offset`, with its line, and its column in characters."""
    before = data[:offset]
    line_start = before.rfind(b"\n") + 1
    # Editors count characters, not bytes; bytes before a NUL may be broken, and must not raise here.
    column = len(before[line_start:].decode("utf-8", "replace"))
    place = Place(name, before.count(b"\n") + 1, column + 1)
    return NotTextError(Finding(place, Severity.ERROR, message, hint))
