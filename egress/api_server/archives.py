"""Tar archives into a sandbox and out of it, as streams: neither side holds more than a piece."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, ExitStack
from http import HTTPStatus
from typing import BinaryIO, cast, override

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from egress.api.schema import MAX_PIECE_BYTES, PathQuery
from egress.api_server.call import ApiCall, SenderLeftError

_PIECE_BYTES = 4 * MAX_PIECE_BYTES


async def put_archive(call: ApiCall, request: Request) -> Response:
    """Unpack the archive that arrives."""
    query: PathQuery = call.query
    archive = RequestBodyFile(request)
    await call.context.waiting(call.fleet.put, call.name, query.path, cast("BinaryIO", archive))
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def get_archive(call: ApiCall, _: Request) -> Response:
    """Send the archive of a path."""
    query: PathQuery = call.query
    return await stream_archive(call, call.fleet.get(call.name, query.path))


async def stream_archive(call: ApiCall, source: AbstractContextManager[BinaryIO]) -> Response:
    """Send an archive, and close it."""
    parts = ExitStack()
    # Opened before the answer begins, so that a path that does not exist is an error and no empty archive.
    archive = await call.context.in_thread(parts.enter_context, source)

    async def pieces() -> AsyncIterator[bytes]:
        try:
            while piece := await call.context.waiting(archive.read, _PIECE_BYTES):
                yield piece
        finally:
            await asyncio.shield(asyncio.ensure_future(call.context.in_thread(parts.close)))

    return StreamingResponse(pieces(), media_type="application/x-tar")


class RequestBodyFile(io.RawIOBase):
    """The body of a request as a file, for a thread that reads it.

    A request that ends early is an error, not the end of the file.
    """

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._stream = request.stream()
        self._loop = asyncio.get_running_loop()
        self._piece = memoryview(b"")
        self._is_over = False

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # type: ignore[override]
        if not self._piece and not self._is_over:
            data = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()
            self._is_over = not data
            self._piece = memoryview(data)
        count = min(len(buffer), len(self._piece))
        buffer[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count

    async def _next(self) -> bytes:
        try:
            async for data in self._stream:
                # The last piece of a body is empty, and so can be a piece in between.
                if data:
                    return data
        except ClientDisconnect:
            raise SenderLeftError("the sender closed the connection") from None
        return b""
