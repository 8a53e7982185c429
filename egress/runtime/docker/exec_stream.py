r"""The input and output of a command, over a connection of our own to the engine.

The SDK reads ahead while it parses the engine's response, and loses the first output of a fast command. So
the connection is opened here. After the response the connection carries no HTTP: frames with a head of eight
bytes, the first naming the stream and the last four the length; or raw bytes for a terminal.

The engine makes the frames, not the sandbox; they are checked nevertheless.
"""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from egress.runtime.errors import EngineError, EngineUnavailableError
from egress.runtime.supervised_process import StreamName

_FRAME_HEADER: Final = struct.Struct(">BxxxL")
_READ_BYTES: Final = 64 * 1024
_MAX_HEAD_BYTES: Final = 16 * 1024
_ANSWER_TIMEOUT: Final = 60.0
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3}) ")
_STREAM_NAMES: Final[dict[int, StreamName]] = {0: "stdout", 1: "stdout", 2: "stderr"}


class ExecFrameDecoder:
    """Splits bytes into the pieces of both streams. Pure."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._stream: StreamName = "stdout"
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[StreamName, bytes]]:
        """The pieces in these bytes. Raises `EngineError` for an invalid frame."""
        self._buffer += data
        while self._buffer:
            if self._left:
                piece = bytes(self._buffer[: self._left])
                del self._buffer[: self._left]
                self._left -= len(piece)
                yield self._stream, piece
            # An incomplete head waits for more bytes; a piece of a stream is passed on at once.
            elif len(self._buffer) < _FRAME_HEADER.size:
                return
            else:
                number, self._left = _FRAME_HEADER.unpack_from(self._buffer)
                del self._buffer[: _FRAME_HEADER.size]
                if number not in _STREAM_NAMES:
                    raise EngineError("the engine sent output in an unknown format", "update the engine")
                self._stream = _STREAM_NAMES[number]


class ExecStream:
    """A command that was started."""

    def __init__(self, sock: socket.socket, early: bytes, *, has_terminal: bool) -> None:
        self._sock = sock
        self._early = early
        self._frames = None if has_terminal else ExecFrameDecoder()

    def read(self) -> list[tuple[StreamName, bytes]] | None:
        """The next pieces of output; None at the end. Blocks."""
        data, self._early = self._early, b""
        if not data:
            with suppress(OSError):
                data = self._sock.recv(_READ_BYTES)
            if not data:
                return None
        return [("stdout", data)] if self._frames is None else list(self._frames.feed(data))

    def write(self, data: bytes) -> None:
        """Send input; ignored once the command has closed its input."""
        with suppress(OSError):
            self._sock.sendall(data)

    def close_input(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Wake readers and writers: the connection is over."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection. A writer whose input nobody takes any more does not wait for ever."""
        # Closing alone wakes no other thread.
        self.abort()
        self._sock.close()


def start_exec(
    engine: Path, api_version: str, command: str, *, has_terminal: bool
) -> tuple[socket.socket, bytes]:
    """Start a prepared command; returns its connection, and the output that came with the answer.

    Raises `EngineError` or `EngineUnavailableError`.
    """
    body = json.dumps({"Detach": False, "Tty": has_terminal}).encode()
    head = (
        f"POST /v{api_version}/exec/{command}/start HTTP/1.1\r\nHost: engine\r\n"
        "Content-Type: application/json\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A timeout for the response only: the command itself may run for days.
        sock.settimeout(_ANSWER_TIMEOUT)
        sock.connect(str(engine))
        sock.sendall(head.encode("ascii") + body)
        early = _read_answer(sock)
        sock.settimeout(None)
    except OSError as error:
        sock.close()
        raise EngineUnavailableError(
            f"the engine at {engine} did not answer ({type(error).__name__})",
            "check that it runs, and see its log",
        ) from None
    except BaseException:
        sock.close()
        raise
    return sock, early


def _read_answer(sock: socket.socket) -> bytes:
    """Read the engine's response head; returns the bytes after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(_READ_BYTES)
        if not more or len(data) > _MAX_HEAD_BYTES:
            raise EngineError("the engine did not start the command", "see its log")
        data += more
    head, _, early = data.partition(b"\r\n\r\n")
    status = _STATUS_LINE.match(head)
    if status is None or status[1] not in (b"101", b"200"):
        code = status[1].decode() if status else "none"
        raise EngineError(
            f"the engine did not start the command: status {code}", "check that the sandbox runs"
        )
    return early
