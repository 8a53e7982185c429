"""The protocol over standard streams: one message a line, from the client that started this process.

Nothing else may be printed on the standard output: a stray line would be read as a message. So the stream is
kept under another number, and the usual one leads to the error stream from then on.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Final

from egress.mcp.jsonrpc import (
    INVALID_REQUEST,
    MAX_MESSAGE_BYTES,
    PARSE_ERROR,
    RpcError,
    RpcNotification,
    RpcRequest,
    error_message,
    read_message,
)
from egress.mcp.peer import McpPeer
from egress.sandbox.async_bridge import in_thread

_CHUNK_BYTES: Final = 64 * 1024
_MAX_REQUESTS: Final = 64
"""Requests that are under way; further ones are refused."""
_MAX_WAITING_MESSAGES: Final = 64
"""Messages that wait for a client that does not read. Of progress, further ones are dropped."""


def take_output() -> int:
    """Keep the standard output for messages, and return its number. Prints go to the error stream."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


class LineSplitter:
    """Splits bytes into lines, and bounds them: of a longer line nothing is kept."""

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._is_too_long = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Return the lines that end in these bytes; None for one that was too long."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._add(piece)
            line = None if self._is_too_long else bytes(self._rest)
            self._rest.clear()
            self._is_too_long = False
            yield line
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        if self._is_too_long or len(self._rest) + len(piece) > self._max_bytes:
            self._is_too_long = True
            self._rest.clear()
        else:
            self._rest += piece


async def serve_stdio(peer: McpPeer, source: int, target: int) -> None:
    """Answer the messages that come in at one descriptor at another one, until the first one ends."""
    await _StdioServer(peer, source, target).serve()


class _StdioServer:
    def __init__(self, peer: McpPeer, source: int, target: int) -> None:
        self._peer = peer
        self._source = source
        self._target = target
        self._lines: asyncio.Queue[tuple[bytes | None, ...] | None] = asyncio.Queue(maxsize=1)
        self._out: asyncio.Queue[bytes] = asyncio.Queue(_MAX_WAITING_MESSAGES)
        self._answering: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="egress-mcp-input", daemon=True).start()
        writing = asyncio.ensure_future(self._write())
        ending = asyncio.ensure_future(self._hear())
        try:
            # A client that no longer reads has left, even if it has not closed its other side.
            await asyncio.wait((writing, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            await self._peer.end()
            writing.cancel()
            await asyncio.gather(ending, writing, return_exceptions=True)

    async def _hear(self) -> None:
        while (lines := await self._lines.get()) is not None:
            for line in lines:
                try:
                    self._take(line)
                except RpcError as error:
                    # Waited for: a client that sends and does not read is not read on.
                    await self._out.put(error_message(error))

    def _take(self, line: bytes | None) -> None:
        if line is None:
            raise RpcError(PARSE_ERROR, f"a line has more than {MAX_MESSAGE_BYTES} bytes")
        if not line.strip():
            return
        match read_message(line):
            case RpcRequest() as request:
                if len(self._answering) >= _MAX_REQUESTS:
                    busy = f"{_MAX_REQUESTS} requests are under way"
                    raise RpcError(INVALID_REQUEST, busy, request_id=request.request_id)
                task = asyncio.ensure_future(self._answer(self._peer.start(request, self._tell)))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case RpcNotification() as notification:
                self._peer.hear(notification)

    async def _answer(self, answering: asyncio.Task[bytes]) -> None:
        # A request that was cancelled is not answered.
        with suppress(asyncio.CancelledError):
            await self._out.put(await answering)

    def _tell(self, message: bytes) -> None:
        if not self._out.full():
            self._out.put_nowait(message)

    async def _write(self) -> None:
        while True:
            message = await self._out.get()
            try:
                # In a thread: a client that does not read must not keep this process from hearing its end.
                await in_thread(_write_all, self._target, message + b"\n")
            except OSError:
                return

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        splitter = LineSplitter()
        lines: tuple[bytes | None, ...] | None = ()
        # A loop that has ended takes no lines any more.
        with suppress(RuntimeError, CancelledError):
            while lines is not None:
                try:
                    data = os.read(self._source, _CHUNK_BYTES)
                except OSError:
                    data = b""
                lines = tuple(splitter.feed(data)) if data else None
                if lines or lines is None:
                    # Waited for: a client that sends faster than it is served is not read on.
                    asyncio.run_coroutine_threadsafe(self._lines.put(lines), loop).result()


def _write_all(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]
