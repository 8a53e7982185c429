"""The control socket: how the proxy's own user asks a running proxy, and tells it what to do.

A unix socket, mode 0600 in a folder of mode 0700, and every peer is asked of the kernel who it is: only the
user of the proxy, and root, are answered. It is never a port, so nothing that goes through the proxy can
reach it, and a sandbox that is not given the folder cannot either.

What is spoken is HTTP/1.1 with JSON in it, or a text, one request a connection, so that
`curl --unix-socket` will do. What the answers are is not decided here.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

import structlog

from egress.control_client import CONTROL_SOCKET, ask_proxy
from egress.errors import UnreadableError, WireError, reason_of
from egress.http1 import Data, End, MessageLimits, RequestHead, RequestReader
from egress.proxy.ingress.acceptor import Acceptor
from egress.proxy.ingress.connection_tasks import ConnectionTasks
from egress.unix.peer import is_own_user, peer_of
from egress.unix.socket_folder import lock_file, make_own_folder
from egress.unix.stream_socket import connect, listen

_LOCK_NAME: Final = "control.lock"
_MAX_BODY_BYTES: Final = 1024 * 1024
"""The largest variable there can be fits in, also where each of its characters is escaped."""
_CONVERSATION_TIMEOUT: Final = 10.0
_MAX_CONVERSATIONS: Final = 32
"""ConnectionTasks at a time. Those beyond wait in the kernel's queue, or are closed."""
_ACCEPT_PAUSE: Final = 0.1
_PROBE_TIMEOUT: Final = 1.0
"""Seconds for finding out who is there already."""
_LIMITS: Final = MessageLimits(head=16 * 1024, target=201)
_READ_SIZE: Final = 64 * 1024
_LINGER_TIMEOUT: Final = 1.0

_log = structlog.get_logger(__name__)

Body = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ControlReply:
    """A status and what is said with it."""

    status: int
    body: Body = field(default_factory=dict)
    text: str = ""
    """Said instead of the body, for those who do not read JSON."""
    content_type: str = "application/json"


RouteHandler = Callable[[Body], Awaitable[ControlReply]]
Routes = Mapping[tuple[str, str], RouteHandler]
"""By method and path; the last part of a path can be `*`, which reaches the handler as `name`."""


class ControlServer:
    """The socket, from `open` to `close`."""

    def __init__(self, folder: Path, routes: Routes, option: str = "--runtime-dir") -> None:
        """`option` is the one by which the folder was named, for hints."""
        self._option = option
        self.path = folder / CONTROL_SOCKET
        self._routes = routes
        self._lock = -1
        self._acceptor: Acceptor | None = None
        self._conversations = ConnectionTasks(self._talk, _MAX_CONVERSATIONS)

    async def open(self) -> None:
        """Listen. Raises `UnreadableError` when another proxy does already, or where it cannot be."""
        try:
            self._lock = await self._locked()
            sock = listen(self.path, _MAX_CONVERSATIONS, is_ours=True)
            # No reserve: the control socket may take the last descriptor, since it can free others.
            self._acceptor = Acceptor(sock, self._conversations.begin, _ACCEPT_PAUSE, reserve=0)
        except OSError as error:
            self._unlock()
            raise UnreadableError(
                f"the control socket cannot be made in {self.path.parent}: {reason_of(error)}",
                f"check the permissions of the folder, or name another one with {self._option}",
            ) from None

    async def close(self) -> None:
        """Answer nobody any more, and take the socket away."""
        if self._acceptor is not None:
            self._acceptor.close()
            self.path.unlink(missing_ok=True)
        await self._conversations.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _locked(self) -> int:
        folder = make_own_folder(self.path.parent, f"name another one with {self._option}")
        lock = lock_file(folder / _LOCK_NAME)
        if lock is None:
            raise UnreadableError(
                f"another egress is running{await _describe_owner(self.path)}, with its control "
                f"socket in {folder}",
                "stop it, or start this one with another --runtime-dir and --state-dir",
            )
        return lock

    # One conversation

    async def _talk(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError, TimeoutError):
            if not is_own_user(sock):
                return
            reply = await self._reply(sock)
            async with asyncio.timeout(_CONVERSATION_TIMEOUT):
                await loop.sock_sendall(sock, _encode_reply(reply))
            sock.shutdown(socket.SHUT_WR)
            # Closed on unread bytes, the connection would be reset before the client has read the answer.
            async with asyncio.timeout(_LINGER_TIMEOUT):
                while await loop.sock_recv(sock, _READ_SIZE):
                    pass

    async def _reply(self, sock: socket.socket) -> ControlReply:
        try:
            async with asyncio.timeout(_CONVERSATION_TIMEOUT):
                found = await _read(sock)
        except WireError:
            return ControlReply(400, {"error": "this is no request for the control socket"})
        except TimeoutError:
            found = None
        if found is None:
            return ControlReply(400, {"error": "the request did not arrive whole"})
        head, data = found
        body = _parsed(data)
        if body is None:
            return ControlReply(400, {"error": "the body is not a JSON object"})
        return await self._answer(head.method, head.target, body)

    async def _answer(self, method: str, path: str, body: Body) -> ControlReply:
        handler = self._routes.get((method, path))
        folder, _, name = path.rpartition("/")
        if handler is None and folder and name:
            # The name in the path overrides a name in the body.
            path, body = f"{folder}/*", {**body, "name": name}
            handler = self._routes.get((method, path))
        if handler is None:
            known = [known for known, there in self._routes if there == path]
            if known:
                return ControlReply(405, {"error": f"use {' or '.join(known)}"})
            there = ", ".join(f"{method} {path}" for method, path in self._routes)
            return ControlReply(404, {"error": "there is no such thing here", "hint": f"there are: {there}"})
        try:
            return await handler(body)
        except Exception as error:  # noqa: BLE001 - a mistake here must not end the proxy
            _log.exception("control.failed", path=path)
            return ControlReply(500, {"error": f"something unexpected went wrong ({type(error).__name__})"})


async def _read(sock: socket.socket) -> tuple[RequestHead, bytes] | None:
    """Read one request; None where the client hangs up before its end. Raises `WireError`."""
    loop = asyncio.get_running_loop()
    reader, body = RequestReader(_LIMITS), bytearray()
    head: RequestHead | None = None
    while data := await loop.sock_recv(sock, _READ_SIZE):
        for event in reader.feed(data):
            if isinstance(event, Data):
                body += event.data
            elif isinstance(event, RequestHead):
                head = event
            # Checked before the end of the request: a refused one is not waited for.
            if head is None or head.form != "origin" or max(head.framing.length, len(body)) > _MAX_BODY_BYTES:
                raise WireError("This is no request for the control socket.")
            if isinstance(event, End):
                return head, bytes(body)
    return None


def _parsed(data: bytes) -> Body | None:
    try:
        body = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _encode_reply(reply: ControlReply) -> bytes:
    body = reply.text.encode() or json.dumps(reply.body, indent=2).encode() + b"\n"
    head = (
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\n"
        f"content-type: {reply.content_type}\r\n"
        f"content-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body


async def _describe_owner(path: Path) -> str:
    """Describe the process that answers there, and its listeners, as far as they can be found."""
    try:
        pid, answer = await asyncio.to_thread(_look, path)
    except OSError:
        return ""
    at = [str(place) for box in _listed(answer, "sandboxes") for place in _listed(box, "listeners")]
    return f" (pid {pid}{', ' if at else ''}{', '.join(at)})"


def _look(path: Path) -> tuple[int, Body]:
    with closing(connect(path, _PROBE_TIMEOUT)) as sock:
        pid = peer_of(sock).pid
    with suppress(UnreadableError):
        return pid, ask_proxy(path.parent, "GET", "/status", timeout=_PROBE_TIMEOUT / 2).body
    return pid, {}


def _listed(value: object, key: str) -> list[object]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []
