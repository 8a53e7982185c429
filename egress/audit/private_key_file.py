"""Private key files: readable by their owner only, and created once and completely.

Errors name the file and must never quote its content.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from egress.errors import UnreadableError


def read_private(path: Path, limit: int, hint: str) -> bytes:
    """Read at most `limit` bytes of a key file.

    Raises `FileNotFoundError`, and `UnreadableError` for a file that is unreadable or open to other users.
    """
    try:
        # O_NONBLOCK: opening a pipe in place of the key must not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError(f"cannot read the key {path}: {_reason(error)}", hint) from None
    try:
        # The open file is checked, not the path: the path could name another file a moment later.
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableError(f"the key {path} is not a file", hint)
        if found.st_mode & 0o077:
            raise UnreadableError(
                f"others may read or change the key {path}",
                "`chmod 600` it; if another user may have read it, start again with a new key",
            )
        return os.read(descriptor, limit)
    finally:
        os.close(descriptor)


def create_private(path: Path, data: bytes, hint: str) -> None:
    """Create a key file with mode 0600, unless it exists. Raises `UnreadableError`."""
    # A temporary name first: a crash must not leave half a key under the real name.
    fresh = path.with_name(f"{path.name}.{token_hex(4)}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        # A hard link fails if another process created the file first: the key of that process counts.
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
        fresh.unlink()
    except OSError as error:
        raise UnreadableError(f"cannot create the key {path}: {_reason(error)}", hint) from None


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
