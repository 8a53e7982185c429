"""Commands in a terminal, in the messages of the bridge.

The client opens a WebSocket for each command. Its first binary message is a line for a shell, and later ones
are typed input. The shell ends with its line, so that the client learns the exit status at once.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from egress.api.schema import (
    ApiRequest,
    ClientMessage,
    ProblemMessage,
    ResizeMessage,
    ResultMessage,
    ServerMessage,
    StartMessage,
    TerminalSize,
)
from egress.api_server.exec_over_websocket import SocketMessage
from egress.sandbox import options

READY: Final = '{"type":"ready"}'

type Cells = Annotated[int, Meta(ge=1, le=10_000)]


class TerminalQuery(ApiRequest, frozen=True):
    """The size of a terminal."""

    cols: Cells = 80
    rows: Cells = 24


class _Resize(ApiRequest, frozen=True):
    type: Literal["resize"]
    cols: Cells
    rows: Cells


class _Exit(Struct, frozen=True, tag_field="type", tag="exit"):
    code: int


class _Error(Struct, frozen=True, tag_field="type", tag="error"):
    message: str


class TerminalForm:
    """The messages of a command in a terminal."""

    def __init__(self, query: TerminalQuery) -> None:
        self._query = query

    def start(self, said: SocketMessage) -> StartMessage:
        line: bytes = said.get("bytes") or b""
        return StartMessage(
            argv=options.command_words(line.decode().removesuffix("\n")),
            terminal=TerminalSize(columns=self._query.cols, rows=self._query.rows),
        )

    def request(self, said: SocketMessage) -> ClientMessage | bytes:
        typed: bytes | None = said.get("bytes")
        if typed is not None:
            return typed
        size = msgspec.json.decode(said.get("text") or "", type=_Resize)
        return ResizeMessage(columns=size.cols, rows=size.rows)

    def answer(self, message: ServerMessage) -> str | None:
        made: _Exit | _Error
        match message:
            case ResultMessage(exit_code=code):
                made = _Exit(code)
            case ProblemMessage(problem=problem):
                made = _Error(problem.message)
            case _:
                return None
        return msgspec.json.encode(made).decode()

    def output(self, _channel: bytes, data: bytes) -> bytes:
        return data
