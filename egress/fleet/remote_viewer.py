"""A client at the terminal of a process behind the API."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import override

import msgspec

from egress.api.client import ApiProblemError, decoded
from egress.api.process_schema import AttachedMessage, EndedMessage, TerminalServerMessage
from egress.api.schema import STDOUT_CHANNEL, ProblemMessage, ResizeMessage, TakenMessage
from egress.api.websocket_client import WebSocketClient, WebSocketLostError
from egress.fleet.api_values import error_of
from egress.fleet.remote_events import RemoteEventReader
from egress.fleet.remote_process import protocol_error


class RemoteViewer(RemoteEventReader[bytes]):
    """`TerminalViewer` of another process."""

    def __init__(
        self, stream: WebSocketClient, write: Callable[[bytes], object], leave: Callable[[], object]
    ) -> None:
        """`write` types by a call of its own, which returns when the input was taken."""
        stack = ExitStack()
        stack.callback(leave)
        super().__init__(stream, stack)
        self._stream = stream
        self._write = write

    def write(self, data: bytes) -> None:
        self._write(data)

    def resize(self, columns: int, rows: int) -> None:
        try:
            self._stream.send_text(msgspec.json.encode(ResizeMessage(columns=columns, rows=rows)))
        except WebSocketLostError:
            """The thread that reads raises it."""

    @override
    def _next_item(self) -> bytes | None:
        while True:
            try:
                said = self._stream.receive()
            except WebSocketLostError:
                return None
            if said is None:
                return None
            if isinstance(said, bytes):
                if said[:1] != STDOUT_CHANNEL:
                    raise protocol_error()
                return said[1:]
            if self._is_end(said):
                self._is_over = True
                return None

    def _is_end(self, said: str) -> bool:
        try:
            message: TerminalServerMessage = decoded(said, TerminalServerMessage)
        except ApiProblemError as error:
            raise error_of(error.problem) from None
        match message:
            case ProblemMessage(problem=problem):
                raise error_of(problem)
            case AttachedMessage() | TakenMessage():
                return False
            case EndedMessage():
                return True
