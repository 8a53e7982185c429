"""Commands over a WebSocket: their output as it comes, their input as it is taken.

A thread of the runtime brings each piece of output, and waits until the loop has sent it: a client that
reads slowly slows the command, and no piece is dropped. Input goes one message at a time, and each is
acknowledged, so that a client which waits for that can end the command at any moment. A command ends with its
connection, unless it is detached.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from egress.api.schema import (
    MAX_PIECE_BYTES,
    STDERR_CHANNEL,
    STDIN_CHANNEL,
    STDOUT_CHANNEL,
    ClientMessage,
    CloseInputMessage,
    KillMessage,
    ProblemMessage,
    ResizeMessage,
    ResultMessage,
    ServerMessage,
    StartedMessage,
    StartMessage,
    TakenMessage,
)
from egress.api_server.call import ApiCall, UnfitRequestError, problem_from
from egress.api_server.input_queue import InputQueue
from egress.api_server.policy_calls import run_rights
from egress.api_server.stream_problems import problems_sent
from egress.errors import EgressError
from egress.fleet.api_values import command_from
from egress.runtime.protocol import Output, RuntimeProcess
from egress.runtime.spec import Terminal

type SocketMessage = Mapping[str, Any]
"""A message of a WebSocket, as its server hands it on."""

_MAX_TASKS: Final = 64
"""Requests of one client that are under way at a time."""
_MAX_KEPT_BYTES: Final = 64 * 1024
"""Bytes of each output kept in this process; the client keeps its own copy."""


class StreamForm(Protocol):
    """The form of the messages, which differs between the doors onto the API.

    Its methods raise `MsgspecError`, `UnicodeError` or an `EgressError` for messages of another form.
    """

    def start(self, said: SocketMessage) -> StartMessage:
        """Return the command that the first message of the client asks for."""

    def request(self, said: SocketMessage) -> ClientMessage | bytes:
        """Return what a later message of the client asks for; bytes are input of the command."""

    def answer(self, message: ServerMessage) -> str | None:
        """Return a message of the server as text; None for one that this form does not have."""

    def output(self, channel: bytes, data: bytes) -> bytes:
        """Return a piece of output as a binary message."""


class ApiStreamForm:
    """The messages of the API."""

    def start(self, said: SocketMessage) -> StartMessage:
        return _START_DECODER.decode(said.get("text") or "")

    def request(self, said: SocketMessage) -> ClientMessage | bytes:
        data: bytes | None = said.get("bytes")
        if data is None:
            asked: ClientMessage = _CLIENT_DECODER.decode(said.get("text") or "")
            return asked
        if data[:1] != STDIN_CHANNEL:
            raise UnfitRequestError("a binary message is no input", "begin it with a zero byte")
        return data[1:]

    def answer(self, message: ServerMessage) -> str:
        return msgspec.json.encode(message).decode()

    def output(self, channel: bytes, data: bytes) -> bytes:
        return channel + data


async def serve_exec_stream(call: ApiCall, websocket: WebSocket) -> None:
    """Serve one command, from its first message to its result."""
    await websocket.accept()
    await serve_stream(call, websocket, ApiStreamForm())


async def serve_stream(call: ApiCall, websocket: WebSocket, form: StreamForm) -> None:
    """Serve one command over a WebSocket that is open, and close it."""
    stream = _ExecStream(call, websocket, form)
    try:
        async with problems_sent(stream.send):
            await stream.serve()
    finally:
        await stream.leave()
        with suppress(RuntimeError, WebSocketDisconnect):
            await websocket.close()


class _ExecStream:
    def __init__(self, call: ApiCall, websocket: WebSocket, form: StreamForm) -> None:
        self._call = call
        self._websocket = websocket
        self._form = form
        self._loop = asyncio.get_running_loop()
        self._process: RuntimeProcess | None = None
        self._is_started = threading.Event()
        self._is_detached = False
        self._is_ended = False
        self._is_gone = False
        self._input = InputQueue()
        self._tasks: set[asyncio.Future[object]] = set()

    async def serve(self) -> None:
        message = self._form.start(await self._receive())
        rights = run_rights(self._call, message.profile, message.params)
        command = replace(command_from(message, _MAX_KEPT_BYTES), rights=rights)
        self._is_detached = message.detached
        output = Output(
            stdout=lambda data: self._send_output(STDOUT_CHANNEL, data),
            stderr=lambda data: self._send_output(STDERR_CHANNEL, data),
        )
        # Set in any case: threads that bring output wait for it, also after a failed start.
        try:
            process = await self._call.context.in_thread(
                self._call.fleet.spawn, self._call.name, command, output
            )
            self._process = process
            await self.send(StartedMessage())
        finally:
            self._is_started.set()
        self._begin(self._feed(process))
        listening = self._begin(self._listen(process))
        result = await self._settled(process, listening)
        if result is not None:
            await self.send(result)

    async def send(self, message: ServerMessage) -> None:
        """Send a message, unless the client has left."""
        text = self._form.answer(message)
        if text is not None and not self._is_gone:
            try:
                await self._websocket.send_text(text)
            except (WebSocketDisconnect, OSError, RuntimeError):
                self._is_gone = True

    async def leave(self) -> None:
        """End the command, if it still runs and is not detached."""
        self._is_gone = True
        for task in self._tasks:
            task.cancel()
        if self._process is not None and not self._is_ended and not self._is_detached:
            await asyncio.shield(asyncio.ensure_future(self._call.context.in_thread(self._process.kill)))

    # Messages of the client

    async def _listen(self, process: RuntimeProcess) -> None:
        """Handle messages until the client leaves."""
        with suppress(WebSocketDisconnect):
            while True:
                asked = self._form.request(await self._receive())
                if isinstance(asked, bytes):
                    self._input.add(asked)
                else:
                    await self._obey(process, asked)

    async def _receive(self) -> SocketMessage:
        """Return the next message. Raises `WebSocketDisconnect`."""
        said = await self._websocket.receive()
        if said["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(said.get("code", 1000))
        return said

    async def _feed(self, process: RuntimeProcess) -> None:
        """Pass input on. The command may read slowly, and a request to end it is heard meanwhile."""
        await self._input.feed(
            lambda data: self._call.context.waiting(process.write, data), lambda: self.send(TakenMessage())
        )
        await self._call.context.in_thread(process.close_input)

    async def _obey(self, process: RuntimeProcess, message: ClientMessage) -> None:
        if len(self._tasks) >= _MAX_TASKS:
            raise UnfitRequestError("too many requests to end the command at a time", "wait for its end")
        match message:
            case CloseInputMessage():
                self._input.add(None)
            case KillMessage(grace=grace):
                # In a task: ending takes up to `grace` seconds, and further messages are read meanwhile.
                self._begin(self._call.context.in_thread(process.kill, grace))
            case ResizeMessage(columns=columns, rows=rows):
                with suppress(EgressError):
                    await self._call.context.in_thread(process.resize, Terminal(columns=columns, rows=rows))

    # Events of the command

    def _send_output(self, channel: bytes, data: bytes) -> None:
        # The start is told first: the client expects it before any output.
        self._is_started.wait()
        for begin in range(0, len(data), MAX_PIECE_BYTES):
            if self._is_gone:
                return
            piece = self._form.output(channel, data[begin : begin + MAX_PIECE_BYTES])
            self._run(self._websocket.send_bytes(piece))

    def _run(self, sending: Coroutine[Any, Any, None]) -> None:
        """Send from a thread, and wait until it is sent."""
        try:
            asyncio.run_coroutine_threadsafe(sending, self._loop).result()
        except Exception:  # noqa: BLE001 - whatever it was, nobody reads any more
            self._is_gone = True

    async def _settled(
        self, process: RuntimeProcess, listening: asyncio.Future[object]
    ) -> ResultMessage | ProblemMessage | None:
        """Wait for the result; None if the client leaves before it."""
        waiting = self._begin(self._call.context.waiting(process.wait))
        done, _ = await asyncio.wait({waiting, listening}, return_when=asyncio.FIRST_COMPLETED)
        if waiting not in done:
            # Raises what the client did wrong, if it did.
            await listening
            if not self._is_detached:
                return None
            self._is_gone = True
            await asyncio.wait({waiting})
        self._is_ended = True
        error = waiting.exception()
        if error is not None:
            return ProblemMessage(problem=problem_from(error))
        result: Any = waiting.result()
        return ResultMessage(exit_code=result.exit_code, duration=result.duration, timed_out=result.timed_out)

    def _begin(self, work: Awaitable[object]) -> asyncio.Future[object]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


_START_DECODER: Final = msgspec.json.Decoder(StartMessage)
_CLIENT_DECODER: Final = msgspec.json.Decoder(ClientMessage)
