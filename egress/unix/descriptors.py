"""Receiving descriptors over a unix socket.

This module imports the standard library alone: the processes that hold a sandbox of namespaces load it before
they lose sight of the file system.
"""

from __future__ import annotations

import array
import errno
import os
import socket


class TruncatedError(OSError):
    """A message came with more bytes or descriptors than it may have; all of its descriptors are closed."""

    def __init__(self) -> None:
        super().__init__(errno.EMSGSIZE, "a message came in part")


def receive(sock: socket.socket, max_bytes: int, max_descriptors: int) -> tuple[bytes, list[int]]:
    """Return bytes and the descriptors that came with them, which no child process inherits.

    No bytes mean that the other side hung up. Raises `OSError`, `TruncatedError` among it.
    """
    found = array.array("i")
    ancillary_size = socket.CMSG_LEN(max_descriptors * found.itemsize)
    # Not `socket.recv_fds`: it drops the flag, so that a child would inherit the descriptors.
    try:
        data, parts, flags, _ = sock.recvmsg(max_bytes, ancillary_size, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        # A peer that hung up without reading our last message is told first, before its own last messages.
        data, parts, flags, _ = sock.recvmsg(max_bytes, ancillary_size, socket.MSG_CMSG_CLOEXEC)
    for level, kind, part in parts:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(part[: len(part) - len(part) % found.itemsize])
    if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
        for descriptor in found:
            os.close(descriptor)
        raise TruncatedError
    return data, list(found)
