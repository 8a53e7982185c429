"""A command in a container of a pod: its streams and its exit status, over one WebSocket.

One thread reads and any thread writes. The end of the connection does not end the command: nothing in the
protocol does.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Literal
from urllib.parse import urlencode

from egress.api.websocket_client import WebSocketClient, WebSocketLostError
from egress.cluster import stream_channels as channels
from egress.cluster.api_server import ClusterApi
from egress.cluster.pod_stream import open_stream
from egress.cluster.stream_channels import ExecStatus
from egress.errors import WireError

type StreamName = Literal["stdout", "stderr"]

_STREAM_NAMES: Final[dict[int, StreamName]] = {channels.STDOUT: "stdout", channels.STDERR: "stderr"}


class PodExec:
    """A command, from its start."""

    def __init__(self, stream: WebSocketClient) -> None:
        self._stream = stream
        self._told = bytearray()
        self._input = threading.Lock()
        self._has_input = True
        self.status: ExecStatus | None = None
        """How it ended; None until then, and where the connection ended first."""

    def read(self) -> tuple[StreamName, bytes] | None:
        """Return the next piece of output; None at the end. Blocks. Raises `WireError`."""
        while (message := self._receive()) is not None:
            channel, data = channels.split_message(message)
            if channel == channels.ERROR:
                self._told += data
                if len(self._told) > channels.MAX_STATUS_BYTES:
                    raise WireError("The status of a command is too long.")
            elif channel in _STREAM_NAMES:
                if data:
                    return _STREAM_NAMES[channel], data
            # The server closes its channels one by one before the end, which is no news.
            elif channel != channels.CLOSE:
                raise WireError("A message of a command is of another channel.")
        if self._told and self.status is None:
            self.status = channels.read_status(bytes(self._told))
        return None

    def write(self, data: bytes) -> None:
        """Send input; ignored once the input is closed or the command has ended."""
        with self._input, suppress(WebSocketLostError):
            for start in range(0, len(data) if self._has_input else 0, channels.PIECE_BYTES):
                piece = data[start : start + channels.PIECE_BYTES]
                self._stream.send_bytes(bytes([channels.STDIN]) + piece)

    def close_input(self) -> None:
        with self._input, suppress(WebSocketLostError):
            if self._has_input:
                self._has_input = False
                self._stream.send_bytes(bytes([channels.CLOSE, channels.STDIN]))

    def resize(self, columns: int, rows: int) -> None:
        with suppress(WebSocketLostError):
            self._stream.send_bytes(channels.resize_message(columns, rows))

    def abort(self) -> None:
        """Wake readers and writers: the connection is over."""
        self._stream.end()

    def close(self) -> None:
        self._stream.close()

    def _receive(self) -> str | bytes | None:
        try:
            return self._stream.receive()
        except WebSocketLostError:
            return None


def open_exec(
    api: ClusterApi, pod: str, container: str, words: Sequence[str], *, has_input: bool, has_terminal: bool
) -> PodExec:
    """Begin a command. Raises `ApiRefusedError` and `UnreadableError`."""
    # A terminal has one output; a second one would be refused.
    flags = {"stdout": "true", **({"tty": "true"} if has_terminal else {"stderr": "true"})}
    if has_input:
        flags["stdin"] = "true"
    query = urlencode([("container", container), *flags.items(), *(("command", word) for word in words)])
    path = f"{api.namespaced('pods', pod)}/exec?{query}"
    return PodExec(open_stream(api, path, channels.EXEC_PROTOCOL))
