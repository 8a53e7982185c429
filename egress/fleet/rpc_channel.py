"""An end of a connection between a fleet and its client: frames over a unix socket."""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Self

from egress.fleet.rpc_frames import FrameParser, RpcFrame, encode, protocol_error
from egress.unix.descriptors import TruncatedError, receive

_READ_BYTES: Final = 256 * 1024


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
            try:
                data, descriptors = receive(self._sock, _READ_BYTES, 1)
            except TruncatedError:
                raise protocol_error() from None
        self._descriptors += descriptors
        if len(self._descriptors) > 1:
            raise protocol_error()
        return data


@contextmanager
def _lost_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ChannelLostError(error.errno, error.strerror) from None
