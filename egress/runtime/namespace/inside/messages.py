"""Messages with descriptors, between the processes that hold a sandbox."""

from __future__ import annotations

import array
import os
import socket
from typing import Final

MAX_MESSAGE_BYTES: Final = 4096
"""Bytes of a message."""


def receive(line: socket.socket, count: int) -> tuple[bytes, list[int]]:
    """A message and its descriptors, which no program inherits; empty where the line was hung up.

    `socket.recv_fds` would do, if it passed on the flag for that. Raises `OSError`.
    """
    room = socket.CMSG_LEN(count * array.array("i").itemsize)
    try:
        data, parts, flags, _ = line.recvmsg(MAX_MESSAGE_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        # Hung up with a word of ours unread, which is told before what was said until then.
        data, parts, flags, _ = line.recvmsg(MAX_MESSAGE_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    found = array.array("i")
    for level, kind, part in parts:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(part[: len(part) - len(part) % found.itemsize])
    if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
        for each in found:
            os.close(each)
        raise OSError("a message came in part")
    return data, list(found)
