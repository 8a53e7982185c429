"""The program of a worker: it loads one file of handlers and answers one call at a time.

The proxy starts it, with a socket as its only open file, an empty environment and a bound on memory. It dies
with the proxy, and is killed when a call takes too long.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

import msgspec

from egress.errors import EgressError
from egress.handlers.interface import Allow, Answer, Context, Deny, Request
from egress.handlers.module import HandlerModule, error_line, module_of
from egress.handlers.worker_messages import (
    LENGTH_BYTES,
    MAX_DETAIL_CHARS,
    CallMessage,
    HandlerEntry,
    Manifest,
    Reply,
    Source,
    frame,
)

MEMORY_BYTES: Final = 1024 * 1024 * 1024
"""Address space of a worker."""
_PR_SET_PDEATHSIG: Final = 1


def main(arguments: list[str]) -> int:
    """Serve the socket with this number until the proxy closes it."""
    channel = socket.socket(fileno=int(arguments[0]))
    channel.set_inheritable(False)
    _bind_to_parent(int(arguments[1]))
    # A copy that a handler makes must not speak in the place of this process.
    os.register_at_fork(after_in_child=channel.close)
    source = msgspec.msgpack.decode(_receive(channel), type=Source)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        module = module_of(Path(source.path), source.text)
    except EgressError as error:
        channel.sendall(frame(Manifest(error=error.message, hint=error.hint)))
        return 1
    channel.sendall(frame(_manifest(module)))
    decoder, checked = msgspec.msgpack.Decoder(CallMessage), msgspec.msgpack.Decoder(Reply)
    with asyncio.Runner() as runner:
        while data := _receive(channel):
            call = decoder.decode(data)
            try:
                answer = frame(_reply(module, call, runner))
                checked.decode(answer[LENGTH_BYTES:])
            except BaseException as error:  # noqa: BLE001 - a value that cannot be written is odd, too
                answer = frame(Reply(call.ticket, "value", type(error).__name__))
            channel.sendall(answer)
    return 0


def _bind_to_parent(parent: int) -> None:
    """Let the kernel end this process with the proxy, also where a handler never returns."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _receive(channel: socket.socket) -> bytes:
    """Return the next message; empty at the end."""
    head = _exactly(channel, LENGTH_BYTES)
    return _exactly(channel, int.from_bytes(head, "big")) if head else b""


def _exactly(channel: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        piece = channel.recv(size - len(found))
        if not piece:
            return b""
        found += piece
    return bytes(found)


def _manifest(module: HandlerModule) -> Manifest:
    handlers = [HandlerEntry(n, each.terms.body, each.terms.deadline) for n, each in module.handlers.items()]
    static = module.static
    by_host = {str(pattern): use.name for pattern, use in static.by_host.items()}
    return Manifest(handlers, by_host, static.catch_all.name if static.catch_all else "")


def _reply(module: HandlerModule, call: CallMessage, runner: asyncio.Runner) -> Reply:
    request = Request(
        call.method,
        call.scheme,
        call.host,
        call.port,
        call.path,
        call.query,
        call.headers,
        call.body,
        call.is_websocket,
    )
    params = json.loads(call.params)
    context = Context(
        call.sandbox, call.profile, call.handler, params, call.rule, call.secrets, call.facts, call.values
    )
    try:
        said = module.handlers[call.handler].function(request, context)
        result = runner.run(_awaited(said)) if isinstance(said, Awaitable) else said
    except BaseException as error:  # noqa: BLE001 - also one that would end the process denies, and no more
        detail = f"{type(error).__name__}{error_line(error, module.path)}"
        return Reply(call.ticket, "raised", detail[:MAX_DETAIL_CHARS])
    return _said(call.ticket, result)


async def _awaited(result: Awaitable[object]) -> object:
    return await result


def _said(ticket: bytes, result: object) -> Reply:
    """Return a result as a message. Only its shape is looked at: the proxy judges it."""
    if type(result) is Allow:
        return Reply(
            ticket,
            "allow",
            method=result.method,
            path=result.path,
            query=result.query,
            headers=dict(result.set_headers),
            removed=tuple(result.remove_headers),
            body=result.body,
        )
    if type(result) is Answer:
        body = result.body.encode("utf-8", "replace") if isinstance(result.body, str) else result.body
        return Reply(ticket, "answer", status=result.status, headers=dict(result.headers), body=body)
    if type(result) is Deny:
        return Reply(ticket, "deny", reason=result.reason)
    return Reply(ticket, "value", type(result).__name__[:MAX_DETAIL_CHARS])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
