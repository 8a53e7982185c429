"""The key of a log: 32 random bytes in a file that only its owner can read.

Whoever reads the log must not be able to read the key, or they could write lines of their own; so the
file stands outside of the log's folder.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from egress.errors import UnreadableError

KEY_BYTES = 32
_CURE = "name a file that can be read and written with --audit-key, or another --state-dir"


def read_or_create(path: Path, log: Path) -> bytes:
    """The key of the log in that folder; made when there is none yet. Raises `UnreadableError`."""
    if path.resolve().is_relative_to(log.resolve()):
        raise UnreadableError(
            f"the key {path} would stand in the folder of the log",
            "keep it where readers of the log cannot go",
        )
    try:
        return read(path)
    except FileNotFoundError:
        return _create(path)


def read(path: Path) -> bytes:
    """The key in a file. Raises `FileNotFoundError`, and `UnreadableError` for one that cannot be used."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError(f"the key {path} cannot be read: {_reason(error)}", _CURE) from None
    try:
        _check(os.fstat(descriptor), path)
        key = os.read(descriptor, KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(key) != KEY_BYTES:
        raise UnreadableError(
            f"{path} is not the key of an audit log: it must have {KEY_BYTES} bytes",
            "give the file that the proxy made",
        )
    return key


def _check(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableError(f"the key {path} is not a file", _CURE)
    if found.st_mode & 0o077:
        raise UnreadableError(
            f"others may read or change the key {path}",
            "`chmod 600` it; if somebody may have read it, start a new log with a new key",
        )


def _create(path: Path) -> bytes:
    # Written under another name first: a key that was cut short would be there for good.
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(descriptor)
        # Where another start was quicker, its key is the key.
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
        fresh.unlink()
    except OSError as error:
        raise UnreadableError(f"the key {path} cannot be made: {_reason(error)}", _CURE) from None
    return read(path)


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
