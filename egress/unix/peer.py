"""The process at the other end of a unix socket, as the kernel knows it."""

from __future__ import annotations

import os
import socket
import struct
from typing import Final, NamedTuple

_CREDENTIALS: Final = struct.Struct("=iII")


class Peer(NamedTuple):
    """Process and user at the moment of the connection."""

    pid: int
    uid: int


def peer_of(sock: socket.socket) -> Peer:
    """Return who connected to this socket, or listens there. Raises `OSError`."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return Peer(pid, uid)


def is_own_user(sock: socket.socket) -> bool:
    """True if the process at the other end belongs to our user, or to root."""
    # Root is no threat to refuse: it can read the memory of this process anyway.
    return peer_of(sock).uid in (os.geteuid(), 0)
