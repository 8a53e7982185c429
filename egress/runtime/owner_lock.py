"""Proof that the owner of sandboxes lives: a file that its process keeps locked.

The kernel releases the lock however the process ends. Things at the engine name the file, so the finder of a
leftover can tell whether its owner lives.

A lease is new for each owner, or one for a folder: the kept lease. Sandboxes that outlive their owner name
the kept lease, and their next owner holds it. It is locked before anything that names it is looked at.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from egress.errors import reason_of
from egress.runtime.errors import EngineUnavailableError
from egress.unix.socket_folder import lock_file

_OWNER_FILE: Final = "owner"
_KEPT_NAME: Final = "kept.lease"
_KEPT_TIMEOUT: Final = 30.0
"""Seconds in which another process gives the kept lease back that only looks for leftovers."""
_POLL_INTERVAL: Final = 0.05


class OwnerLock:
    """A lease, held from its creation until `release` or `leave`."""

    def __init__(self, folder: Path, *, keeps: bool = False) -> None:
        """Create and lock the file. Raises `EngineUnavailableError`.

        `keeps`: hold the kept lease of the folder, which another process may hold.
        """
        self.path = kept_lease(folder) if keeps else folder / f"{secrets.token_hex(8)}.lease"
        try:
            self._file = _lock_kept(self.path, _KEPT_TIMEOUT) if keeps else _lock_new(self.path)
        except BlockingIOError:
            raise EngineUnavailableError(
                f"another process keeps sandboxes in {folder}", "stop it with `egress down`"
            ) from None
        except OSError as error:
            raise EngineUnavailableError(
                f"cannot use the folder for sandboxes {folder}: {reason_of(error)}", "choose another folder"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lease: things that name it are leftovers from now on."""
        if self._file >= 0:
            self.path.unlink(missing_ok=True)
            self.leave()

    def leave(self) -> None:
        """Release the kept lease to the next owner: things that name it wait for that owner."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _lock_new(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _lock_kept(path: Path, timeout: float) -> int:
    """Return the locked file. Raises `BlockingIOError` if another process holds it for that long."""
    end = time.monotonic() + timeout
    while True:
        file = lock_file(path)
        if file is not None:
            with suppress(FileNotFoundError):
                # The last owner may have removed the file meanwhile: a lock on that one keeps nobody out.
                if path.stat().st_ino == os.fstat(file).st_ino:
                    return file
            os.close(file)
        elif time.monotonic() >= end:
            raise BlockingIOError
        else:
            time.sleep(_POLL_INTERVAL)


def try_kept_lock(folder: Path) -> int | None:
    """Return the descriptor that holds the kept lease of a folder; None where another process holds it."""
    try:
        return _lock_kept(kept_lease(folder), 0)
    except BlockingIOError:
        return None


def kept_lease(folder: Path) -> Path:
    """The path of the one lease of a folder that goes from owner to owner."""
    return folder / _KEPT_NAME


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
