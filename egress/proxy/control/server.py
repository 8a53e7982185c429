"""The control socket: how the proxy's own user asks a running proxy, and tells it what to do.

A unix socket, mode 0600 in a folder of mode 0700, and every peer is asked of the kernel who it is: only the
user of the proxy, and root, are answered. It is never a port, so nothing that goes through the proxy can
reach it, and a sandbox that is not given the folder cannot either.

What is spoken is HTTP/1.1 with JSON in it, or a text, one request a connection, so that
`curl --unix-socket` will do. What the answers are is not decided here.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import socket
import stat
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

import structlog

from egress.errors import UnreadableError
from egress.proxy.ingress.acceptor import Acceptor

SOCKET_NAME: Final = "control.sock"
_LOCK_NAME: Final = "control.lock"
_MAX_PATH_BYTES: Final = 100
_MAX_HEAD_BYTES: Final = 16 * 1024
_MAX_BODY_BYTES: Final = 1024 * 1024
"""The largest variable there can be fits in, also where each of its characters is escaped."""
_CONVERSATION_TIMEOUT: Final = 10.0
_MAX_CONVERSATIONS: Final = 32
"""Conversations at a time. Those beyond wait in the kernel's queue, or are closed."""
_ACCEPT_PAUSE: Final = 0.1
_PROBE_TIMEOUT: Final = 1.0
"""Seconds for finding out who is there already."""
_PEER_CREDENTIALS: Final = struct.Struct("3i")
_REQUEST: Final = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,200}) HTTP/1\.[01]\r\n")
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,7})[ \t]*\r\n", re.IGNORECASE)

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
        self.path = folder / SOCKET_NAME
        self._routes = routes
        self._lock = -1
        self._acceptor: Acceptor | None = None
        self._conversations: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen. Raises `UnreadableError` when another proxy does already, or where it cannot be."""
        if len(os.fsencode(self.path)) > _MAX_PATH_BYTES:
            raise UnreadableError(
                "the path of the control socket is too long", "name a shorter folder with --runtime-dir"
            )
        try:
            self._lock = await self._locked()
            # The holder of the lock owns the name: a file there is left over from an earlier process.
            self.path.unlink(missing_ok=True)
            # No reserve: the control socket may take the last descriptor, since it can free others.
            self._acceptor = Acceptor(_bind_socket(self.path), self._taken, _ACCEPT_PAUSE, reserve=0)
        except OSError as error:
            self._unlock()
            reason = (error.strerror or type(error).__name__).lower()
            raise UnreadableError(
                f"the control socket cannot be made in {self.path.parent}: {reason}",
                f"check the permissions of the folder, or name another one with {self._option}",
            ) from None

    async def close(self) -> None:
        """Answer nobody any more, and take the socket away."""
        if self._acceptor is not None:
            self._acceptor.close()
            self.path.unlink(missing_ok=True)
        for task in list(self._conversations):
            task.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _locked(self) -> int:
        folder = self.path.parent
        lock = _lock_folder(folder, self._option)
        if lock is None:
            raise UnreadableError(
                f"another egress is running{await _describe_owner(self.path)}, with its control "
                f"socket in {folder}",
                "stop it, or start this one with another --runtime-dir and --state-dir",
            )
        return lock

    # One conversation

    def _taken(self, sock: socket.socket) -> None:
        if len(self._conversations) >= _MAX_CONVERSATIONS:
            sock.close()
            return
        task = asyncio.get_running_loop().create_task(self._talk(sock))
        self._conversations.add(task)

        def end(task: asyncio.Task[None]) -> None:
            self._conversations.discard(task)
            # A task that is cancelled before it begins closes nothing itself.
            sock.close()

        task.add_done_callback(end)

    async def _talk(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_MAX_HEAD_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock)
        except OSError:
            # Gone before it was looked at.
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            if _is_own_user(writer.get_extra_info("socket")):
                writer.write(_encode_reply(await self._reply(reader)))
                async with asyncio.timeout(_CONVERSATION_TIMEOUT):
                    await writer.drain()
        except (OSError, TimeoutError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _reply(self, reader: asyncio.StreamReader) -> ControlReply:
        try:
            async with asyncio.timeout(_CONVERSATION_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                request = _REQUEST.match(head)
                length = _LENGTH.search(head)
                size = int(length[1]) if length else 0
                if request is None or size > _MAX_BODY_BYTES:
                    return ControlReply(400, {"error": "this is no request for the control socket"})
                body = _parsed(await reader.readexactly(size))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            return ControlReply(400, {"error": "the request did not arrive whole"})
        if body is None:
            return ControlReply(400, {"error": "the body is not a JSON object"})
        return await self._answer(request[1].decode(), request[2].decode(), body)

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


# The socket ---------------------------------------------------------------------------------------


def _is_own_user(sock: socket.socket) -> bool:
    """Tell whether the process at the other end belongs to our user, or to root."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    _, uid, _ = _PEER_CREDENTIALS.unpack(found)
    return uid in (os.geteuid(), 0)


def _lock_folder(folder: Path, option: str) -> int | None:
    """Make the folder ours alone, and return the descriptor that keeps others out; None when one does."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise UnreadableError(f"{folder} is not a folder of your own", f"name another one with {option}")
    folder.chmod(0o700)
    handle = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


async def _describe_owner(path: Path) -> str:
    """Describe the process that answers there, and its listeners, as far as they can be found."""
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                pid, *_ = _PEER_CREDENTIALS.unpack(
                    writer.get_extra_info("socket").getsockopt(
                        socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size
                    )
                )
                writer.write(b"GET /status HTTP/1.1\r\nhost: egress\r\n\r\n")
                answer = await _read_json(reader)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return ""
    at = [str(place) for box in _listed(answer, "sandboxes") for place in _listed(box, "listeners")]
    return f" (pid {pid}{', ' if at else ''}{', '.join(at)})"


async def _read_json(reader: asyncio.StreamReader) -> object:
    """The JSON of an answer; None when it does not come, or is none."""
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT / 2):
            _, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return json.loads(body)
    except (OSError, TimeoutError, ValueError, RecursionError):
        return None


def _listed(value: object, key: str) -> list[object]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _bind_socket(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        path.chmod(0o600)
        sock.listen(_MAX_CONVERSATIONS)
    except BaseException:
        sock.close()
        raise
    return sock
