"""The terminal of a process over a WebSocket: the process goes on without its clients.

A client that reads slowly waits for itself alone: the others have viewers of their own. What a client types
is acknowledged, as the input of a command is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from egress.api.process_schema import (
    AttachedMessage,
    AttachQuery,
    EndedMessage,
    TerminalClientMessage,
)
from egress.api.schema import MAX_PIECE_BYTES, STDIN_CHANNEL, STDOUT_CHANNEL, TakenMessage
from egress.api_server.call import ApiCall, UnfitRequestError
from egress.api_server.input_queue import InputQueue
from egress.api_server.processes import LoopWaker
from egress.api_server.stream_problems import problems_sent
from egress.fleet.api_values import process_view
from egress.fleet.process_table import TableProcess
from egress.fleet.terminal_viewer import TableViewer


async def serve_terminal(call: ApiCall, websocket: WebSocket) -> None:
    """Attach a client until it leaves, or the process ends."""
    process = call.fleet.tracked.get(call.name, call.parts["process"])
    # Before the handshake, so that a process without a terminal is a problem and no WebSocket.
    viewer = process.view()
    stream = _TerminalStream(call, websocket, process, viewer)
    try:
        async with problems_sent(stream.send):
            await websocket.accept()
            await stream.serve()
    finally:
        stream.leave()
        with suppress(RuntimeError, WebSocketDisconnect):
            await websocket.close()


class _TerminalStream:
    def __init__(
        self, call: ApiCall, websocket: WebSocket, process: TableProcess, viewer: TableViewer
    ) -> None:
        self._call = call
        self._websocket = websocket
        self._process = process
        self._viewer = viewer
        self._input = InputQueue()
        self._tasks: set[asyncio.Future[object]] = set()

    async def serve(self) -> None:
        query: AttachQuery = self._call.query
        await self.send(AttachedMessage(process=process_view(self._process.status())))
        if query.columns is not None and query.rows is not None:
            self._viewer.redraw(query.columns, query.rows)
        self._begin(self._input.feed(self._type, lambda: self.send(TakenMessage())))
        listening, showing = self._begin(self._listen()), self._begin(self._show())
        await asyncio.wait((listening, showing), return_when=asyncio.FIRST_COMPLETED)
        if listening.done():
            # Raises what the client did wrong, if it did.
            await listening
            return
        await showing
        await self.send(EndedMessage(process=process_view(self._process.status())))

    async def send(self, message: msgspec.Struct) -> None:
        """Send a message, unless the client has left."""
        with suppress(WebSocketDisconnect, OSError, RuntimeError):
            await self._websocket.send_text(msgspec.json.encode(message).decode())

    def leave(self) -> None:
        """Detach the client."""
        for task in self._tasks:
            task.cancel()
        self._viewer.close()

    # Messages of the client

    async def _listen(self) -> None:
        with suppress(WebSocketDisconnect):
            while True:
                said = await self._websocket.receive()
                data = said.get("bytes")
                if said["type"] == "websocket.disconnect":
                    return
                if data is None:
                    asked = _DECODER.decode(said.get("text") or "")
                    self._viewer.resize(asked.columns, asked.rows)
                elif data[:1] == STDIN_CHANNEL:
                    self._input.add(data[1:])
                else:
                    raise UnfitRequestError("a binary message is no input", "begin it with a zero byte")

    async def _type(self, data: bytes) -> None:
        await self._call.context.waiting(self._viewer.write, data)

    # Output

    async def _show(self) -> None:
        """Send output as it comes, until the process ends."""
        waker = LoopWaker()
        with self._process.watch(waker.wake):
            while True:
                waker.changed.clear()
                self._viewer.refuse_evicted()
                # Asked before the read: output that came before the end is sent.
                is_over = self._process.is_over
                piece = self._viewer.poll()
                for begin in range(0, len(piece), MAX_PIECE_BYTES):
                    await self._websocket.send_bytes(STDOUT_CHANNEL + piece[begin : begin + MAX_PIECE_BYTES])
                if piece:
                    continue
                if is_over:
                    return
                await waker.wait(None)

    def _begin(self, work: Awaitable[object]) -> asyncio.Future[object]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


_DECODER: Final = msgspec.json.Decoder(TerminalClientMessage)
