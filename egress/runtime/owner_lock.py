"""Proof that the owner of sandboxes lives: a locked file that lasts as long as its process.

The system takes the lock back however a process ends. What is at the engine names the file, so whoever finds
a leftover can tell whether somebody still wants it.
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
    """Held from when it is made until `end`."""

    def __init__(self, folder: Path) -> None:
        """Raises `EngineUnavailableError` where no file can be made."""
        self.path = folder / f"{secrets.token_hex(8)}.lease"
        try:
            self._file = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            raise EngineUnavailableError(
                f"the folder for sandboxes {folder} cannot be used: {reason_of(error)}", "name another one"
            ) from None
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Give it up. Whatever still names it is a leftover from now on."""
        if self._file >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1


def own_folder(home: Path) -> Path:
    """Make the folder for files of sandboxes, which is this user's alone; returns its real path."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    return home.resolve()


def write_owner(folder: Path, lease: str) -> None:
    """Say in a folder whose it is."""
    (folder / _OWNER_FILE).write_text(lease, encoding="utf-8")


def owner_of(folder: Path) -> str:
    """The path of the lease of a folder's owner; empty where nobody says."""
    try:
        return (folder / _OWNER_FILE).read_text(encoding="utf-8")
    except OSError:
        return ""


def is_held(path: Path) -> bool:
    """Whether its owner lives. Where that cannot be found out it does."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        with suppress(OSError):
            os.close(file)
