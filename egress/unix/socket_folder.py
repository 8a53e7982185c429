"""The folder of a socket: its user's own, and held by one process at a time."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

from egress.errors import UnreadableError


def make_own_folder(folder: Path, cure: str) -> Path:
    """Make a folder that only this user may enter, and return it.

    Raises `UnreadableError` for a link, or a folder of another user, and `OSError`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # `mkdir` accepts what is there: another user may have made the folder first, or left a link.
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise UnreadableError(f"{folder} is not a folder of your own", cure)
    folder.chmod(0o700)
    return folder


def lock_file(path: Path) -> int | None:
    """Return the descriptor that keeps other processes out; None where another process holds the lock.

    The system takes the lock back however a process ends. Raises `OSError`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
