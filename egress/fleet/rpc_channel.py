"""An end of a connection between a fleet and its client: frames over a unix socket."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Self

from egress.fleet.rpc_frames import FrameParser, RpcFrame, encode, protocol_error

_READ_BYTES: Final = 256 * 1024
_DESCRIPTOR_FORMAT: Final = struct.Struct("=i")
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(4 * _DESCRIPTOR_FORMAT.size)
"""Room for more than one descriptor, so that a surplus one is seen and closed instead of lost."""


class ChannelLostError(OSError):
    """The other side closed the connection. Callers translate it; users never see it."""


class RpcChannel:
    """A connected socket that one thread reads and any thread writes; `close` closes it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._parser = FrameParser()
        self._frames: deque[RpcFrame] = deque()
        self._descriptors: list[int] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, *frames: RpcFrame, sock: socket.socket | None = None) -> None:
        """Send frames, and a socket with them. Raises `ChannelLostError` if the other side is gone."""
        data = b"".join(map(encode, frames))
        with self._lock, _lost_errors():
            if sock is not None:
                # The socket goes with the first byte alone: the rest of a short write must not carry it
                # again.
                socket.send_fds(self._sock, [data[:1]], [sock.fileno()])
                data = data[1:]
            self._sock.sendall(data)

    def receive(self) -> RpcFrame | None:
        """The next frame; None at the end of the connection.

        Raises `FleetProtocolError`, `ChannelLostError`.
        """
        while not self._frames:
            data = self._read()
            if not data:
                if not self._parser.is_between:
                    raise protocol_error()
                return None
            self._frames.extend(self._parser.feed(data))
        return self._frames.popleft()

    def socket(self) -> socket.socket:
        """The socket that came with the last frame. Raises `FleetProtocolError` if none came."""
        if len(self._descriptors) != 1:
            raise protocol_error()
        return socket.socket(fileno=self._descriptors.pop())

    def end(self) -> None:
        """Shut the connection down, so that readers on both sides return."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.end()
        self._sock.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def _read(self) -> bytes:
        with _lost_errors():
            # Not `recv_fds`: it drops MSG_CMSG_CLOEXEC, and child processes would inherit the descriptors.
            data, found, flags, _ = self._sock.recvmsg(_READ_BYTES, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
        for level, kind, raw in found:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(raw) - len(raw) % _DESCRIPTOR_FORMAT.size
                self._descriptors += [number for (number,) in _DESCRIPTOR_FORMAT.iter_unpack(raw[:whole])]
        if flags & socket.MSG_CTRUNC or len(self._descriptors) > 1:
            raise protocol_error()
        return data


@contextmanager
def _lost_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ChannelLostError(error.errno, error.strerror) from None
