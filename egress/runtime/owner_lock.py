"""Proof that the owner of sandboxes lives: a file that its process keeps locked.

The kernel releases the lock however the process ends. Things at the engine name the file, so the finder of a
leftover can tell whether its owner lives.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from egress.errors import reason_of
from egress.runtime.errors import EngineUnavailableError

_OWNER_FILE: Final = "owner"


class OwnerLock:
    """A lease, held from its creation until `release`."""

    def __init__(self, folder: Path) -> None:
        """Create and lock the file. Raises `EngineUnavailableError`."""
        self.path = folder / f"{secrets.token_hex(8)}.lease"
        try:
            self._file = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            raise EngineUnavailableError(
                f"cannot use the folder for sandboxes {folder}: {reason_of(error)}", "choose another folder"
            ) from None
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lease: things that name it are leftovers from now on."""
        if self._file >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1


def own_folder(home: Path) -> Path:
    """Create the folder for files of sandboxes, for this user alone; returns its real path."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    return home.resolve()


def write_owner(folder: Path, lease: str) -> None:
    """Record the owner of a folder."""
    (folder / _OWNER_FILE).write_text(lease, encoding="utf-8")


def owner_of(folder: Path) -> str:
    """The path of the owner's lease; empty for a folder without a record."""
    try:
        return (folder / _OWNER_FILE).read_text(encoding="utf-8")
    except OSError:
        return ""


def is_held(path: Path) -> bool:
    """Return whether the owner of a lease lives. In doubt it does: its things must not be deleted."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    # A lock that can be taken has no owner. It is released with the descriptor.
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        with suppress(OSError):
            os.close(file)
