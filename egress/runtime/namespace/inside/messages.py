"""Messages with descriptors, between the processes of a sandbox and its runtime."""

from __future__ import annotations

import array
import os
import socket
from typing import Final

MAX_MESSAGE_BYTES: Final = 4096
"""The maximum size of a message."""


def receive(line: socket.socket, count: int) -> tuple[bytes, list[int]]:
    """Receive a message and its descriptors, close-on-exec; an empty one at the end of the line.

    `socket.recv_fds` drops the flag for that. Raises `OSError`.
    """
    room = socket.CMSG_LEN(count * array.array("i").itemsize)
    try:
        data, parts, flags, _ = line.recvmsg(MAX_MESSAGE_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        # The peer hung up with a message of ours unread; the error comes before the peer's last messages.
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
