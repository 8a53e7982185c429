"""The messages of a command or a port in a pod: one byte names the channel, and the rest is its data. Pure.

The protocols are `v5.channel.k8s.io` for commands, which can close the input, and `v4.channel.k8s.io` for
ports. The API server and the kubelet write the messages; they are checked nevertheless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from egress.errors import WireError

EXEC_PROTOCOL: Final = "v5.channel.k8s.io"
PORT_PROTOCOL: Final = "v4.channel.k8s.io"

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
ERROR: Final = 3
RESIZE: Final = 4
CLOSE: Final = 255
"""A message of this channel names the channel that is closed."""
PORT_DATA: Final = 0
PORT_ERROR: Final = 1

MAX_STATUS_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 32 * 1024
"""The most bytes of a stream in one message of ours."""
_MAX_EXIT_CODE: Final = 255
_PORT_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class ExecStatus:
    """How a command ended, or why it did not begin."""

    exit_code: int | None
    """None for a command that did not begin."""
    reason: str = ""
    """What the API server says of that."""


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: tuple[_Cause, ...] = ()


class _Status(msgspec.Struct):
    status: str
    reason: str = ""
    message: str = ""
    details: _Details | None = None


def split_message(message: str | bytes) -> tuple[int, bytes]:
    """Return the channel of a message and its data. Raises `WireError`."""
    if isinstance(message, str) or not message:
        raise WireError("A message of a stream names no channel.")
    return message[0], message[1:]


def resize_message(columns: int, rows: int) -> bytes:
    """The message that changes the size of a terminal."""
    return bytes([RESIZE]) + msgspec.json.encode({"Width": columns, "Height": rows})


def read_status(data: bytes) -> ExecStatus:
    """Read what the error channel says at the end of a command. Raises `WireError`."""
    if len(data) > MAX_STATUS_BYTES:
        raise WireError("The status of a command is too long.")
    try:
        found = msgspec.json.decode(data, type=_Status)
    except (msgspec.MsgspecError, RecursionError):
        raise WireError("The status of a command is malformed.") from None
    if found.status == "Success":
        return ExecStatus(0)
    if found.reason != "NonZeroExitCode":
        return ExecStatus(None, found.message or found.reason or "no reason was given")
    causes = found.details.causes if found.details is not None else ()
    codes = [each.message for each in causes if each.reason == "ExitCode"]
    # Exactly one: of two exit statuses one would be wrong.
    if len(codes) != 1 or not (codes[0].isascii() and codes[0].isdigit() and len(codes[0]) <= 3):
        raise WireError("The status of a command names no exit status.")
    code = int(codes[0])
    if not 0 < code <= _MAX_EXIT_CODE:
        raise WireError("The status of a command is out of range.")
    return ExecStatus(code)


class PortChannels:
    """Reads the messages of one port. The first message of each of its channels repeats the port."""

    def __init__(self, port: int) -> None:
        self._port = port.to_bytes(_PORT_BYTES, "little")
        self._is_named = {PORT_DATA: False, PORT_ERROR: False}

    def take(self, message: str | bytes) -> tuple[int, bytes]:
        """Return the channel of a message and its data. Raises `WireError`."""
        channel, data = split_message(message)
        if channel not in self._is_named:
            raise WireError("A message of a port is of another channel.")
        if not self._is_named[channel]:
            if data[:_PORT_BYTES] != self._port:
                raise WireError("A message is of another port.")
            self._is_named[channel] = True
            data = data[_PORT_BYTES:]
        return channel, data
