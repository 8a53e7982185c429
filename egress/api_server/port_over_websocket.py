"""Connections to ports of a sandbox over a WebSocket: binary messages are the bytes of the connection."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from egress.api.schema import MAX_PIECE_BYTES
from egress.api_server.call import ApiCall

STALL_SECONDS: Final = 30.0
"""Seconds in which a program has to read something, once the client has left."""


async def serve_port_stream(call: ApiCall, websocket: WebSocket) -> None:
    """Connect to the port, and carry bytes until either side ends.

    Raises the error of a failed connection.
    """
    # Connected before the handshake, so that a closed port is a problem and no WebSocket.
    sock = await call.context.in_thread(call.fleet.dial, call.name, call.port)
    reader, writer = await _opened(sock)
    await websocket.accept()
    down = asyncio.ensure_future(_carry_down(reader, websocket))
    up = asyncio.ensure_future(_carry_up(websocket, writer))
    try:
        await asyncio.wait({down, up}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (down, up):
            task.cancel()
        writer.close()
        # What was written is still passed on, and not for as long as the program likes.
        asyncio.get_running_loop().call_later(STALL_SECONDS, writer.transport.abort)
        with suppress(RuntimeError, OSError, WebSocketDisconnect):
            await websocket.close()


async def _opened(sock: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    sock.settimeout(0)
    try:
        return await asyncio.open_connection(sock=sock)
    except BaseException:
        sock.close()
        raise


async def _carry_down(reader: asyncio.StreamReader, websocket: WebSocket) -> None:
    with suppress(OSError, RuntimeError, WebSocketDisconnect):
        while data := await reader.read(MAX_PIECE_BYTES):
            await websocket.send_bytes(data)


async def _carry_up(websocket: WebSocket, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, KeyError, WebSocketDisconnect):
        while True:
            writer.write(await websocket.receive_bytes())
            await _drain(writer, websocket)


async def _drain(writer: asyncio.StreamWriter, websocket: WebSocket) -> None:
    """Wait for the program to read. Raises `WebSocketDisconnect` if it does not, and the client has left."""
    draining = asyncio.ensure_future(writer.drain())
    try:
        while not (await asyncio.wait({draining}, timeout=STALL_SECONDS))[0]:
            # Bytes of a client that has left still arrive, but are not kept for ever.
            if websocket.state.has_left():
                raise WebSocketDisconnect
        await draining
    finally:
        draining.cancel()
