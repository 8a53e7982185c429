"""Unix stream sockets: connecting to one, and listening at a path that only its user may open."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Final

MAX_PATH_BYTES: Final = 100
"""The longest path at which Egress listens; the system allows a few bytes more."""
OWNER_MODE: Final = 0o600


def is_path_too_long(path: Path) -> bool:
    """True if the path is too long for a socket of Egress."""
    return len(os.fsencode(path)) > MAX_PATH_BYTES


def connect(path: Path, timeout: float | None) -> socket.socket:
    """Return a connected socket, which waits `timeout` seconds for an answer. Raises `OSError`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(str(path))
    except BaseException:
        sock.close()
        raise
    return sock


def connect_to_egress(path: Path, timeout: float | None) -> socket.socket:
    """Connect to a socket of Egress. Raises `OSError`, with a reason for a path that is too long."""
    _refuse_long(path)
    return connect(path, timeout)


def listen(path: Path, backlog: int, mode: int = OWNER_MODE, *, is_ours: bool = False) -> socket.socket:
    """Return a socket that listens at `path`. Raises `OSError`.

    `is_ours` says that the caller owns the name, by a lock or by the folder: a socket that a killed process
    left there is replaced. Anything else that stands there stays.
    """
    _refuse_long(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The file takes over this mode, less the umask: it is open to other users at no moment.
        os.fchmod(sock.fileno(), OWNER_MODE)
        if is_ours and path.is_socket():
            path.unlink()
        sock.bind(str(path))
        if mode != OWNER_MODE:
            path.chmod(mode)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def _refuse_long(path: Path) -> None:
    if is_path_too_long(path):
        raise OSError(errno.ENAMETOOLONG, "the path is too long")
