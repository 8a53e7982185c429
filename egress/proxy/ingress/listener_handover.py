r"""Listeners that somebody else opened, in a network that this process is not in.

The door container of a sandbox, or a process inside its network namespace, binds the sockets and passes
their descriptors over a unix socket; the proxy accepts on them from where it is. So nothing of the
proxy, no rule and no secret, is ever inside a sandbox's network.

A conversation is any number of messages, each one line of JSON, each answered by one line before the
next may be sent. A message that hands over a socket carries exactly one descriptor:

    {"sandbox": "box", "kind": "transparent", "port": 443, "name": "box-443"}
    {"close": "box"}

    {"ok": true, "error": ""}
    {"ok": false, "error": "There is no such sandbox."}

Only processes of the users named are listened to. What is handed over is looked at before it is used:
a descriptor can be anything.

It opens no listener itself; it gives them to `adopt`, and sandboxes that go to `release`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.errors import EgressError, UnreadableError, UsageError, reason_of
from egress.proxy.ingress.acceptor import Acceptor
from egress.proxy.ingress.connection_tasks import ConnectionTasks
from egress.proxy.ingress.listener import Listener, ListenerKind
from egress.unix.descriptors import receive
from egress.unix.peer import peer_of
from egress.unix.stream_socket import listen

_MAX_MESSAGE_BYTES: Final = 4096
_MAX_CONVERSATIONS: Final = 64
_BACKLOG: Final = 128
_MESSAGE_KEYS: Final = frozenset({"sandbox", "kind", "port", "name"})


@dataclass(frozen=True, slots=True)
class HandoverTarget:
    """The receiver of handed-over listeners."""

    sandboxes: Container[str]
    """The names of the existing sandboxes."""
    adopt: Callable[[Listener], Awaitable[object]]
    """Serve this listener from now on. May refuse it with an `EgressError`."""
    release: Callable[[str], Awaitable[object]]
    """Close the listeners of this sandbox."""


class HandoverServer:
    """The unix socket, from `open` to `close`."""

    def __init__(self, path: Path, adoption: HandoverTarget, users: tuple[int, ...] = ()) -> None:
        """`users` are the uids that may hand over; without any, only our own."""
        self._path = path
        self._adoption = adoption
        self._users = users or (os.geteuid(),)
        self._acceptor: Acceptor | None = None
        self._conversations = ConnectionTasks(self._talk, _MAX_CONVERSATIONS)

    def open(self) -> None:
        """Listen. Raises `UnreadableError` where that cannot be.

        Whoever calls owns the folder: a socket that stands there was left behind, and is replaced.
        """
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            sock = listen(self._path, _BACKLOG, is_ours=True)
        except OSError as error:
            raise UnreadableError(
                f"the hand-over socket {self._path} cannot be made: {reason_of(error)}",
                "name another folder with --runtime-dir",
            ) from None
        self._acceptor = Acceptor(sock, self._take, pause=1.0)

    async def close(self) -> None:
        """Take nothing more, and take the socket away. What was handed over stays."""
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None
            self._path.unlink(missing_ok=True)
        await self._conversations.close()

    def _take(self, sock: socket.socket) -> None:
        if peer_of(sock).uid in self._users:
            self._conversations.begin(sock)
        else:
            sock.close()

    # One conversation

    async def _talk(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while (reply := await self._reply(sock)) is not None:
                await loop.sock_sendall(sock, json.dumps({"ok": not reply, "error": reply}).encode() + b"\n")

    async def _reply(self, sock: socket.socket) -> str | None:
        """Do what the next message says; return why not, empty where it is done, None where none comes."""
        descriptors: list[int] = []
        try:
            line = await _line(sock, descriptors)
            if line is None:
                return None
            await self._obey(_parsed(line), descriptors)
        except EgressError as error:
            return error.message
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return ""

    async def _obey(self, message: dict[str, object], descriptors: list[int]) -> None:
        if message.keys() == {"close"} and not descriptors:
            await self._adoption.release(_text(message, "close"))
            return
        if message.keys() != _MESSAGE_KEYS or len(descriptors) != 1:
            raise UsageError(
                "The message is no hand-over of one descriptor.", "Send the keys and one socket."
            )
        sandbox, name = _text(message, "sandbox"), _text(message, "name")
        kind, port = _kind(message), _port(message)
        if sandbox not in self._adoption.sandboxes:
            raise UsageError("There is no such sandbox.", "Add it first.")
        sock = _socket(descriptors.pop(), kind)
        try:
            await self._adoption.adopt(Listener(name, kind, sandbox, sock, given_port=port))
        except BaseException:
            sock.close()
            raise


# Messages ---------------------------------------------------------------------------------------


async def _line(sock: socket.socket, descriptors: list[int]) -> bytes | None:
    """Read one message, and append the descriptors that came with it; None at the end."""
    data = b""
    while not data.endswith(b"\n"):
        await _readable(sock)
        try:
            more, came = receive(sock, _MAX_MESSAGE_BYTES, 1)
        except BlockingIOError:
            continue
        descriptors += came
        data += more
        if not more:
            return None
        if len(data) > _MAX_MESSAGE_BYTES or len(descriptors) > 1:
            # The start of the next message is unknown from here on.
            return None
    return data


async def _readable(sock: socket.socket) -> None:
    is_readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sock, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(sock)


def _parsed(line: bytes) -> dict[str, object]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise UsageError("The message is not one line of JSON with keys.", "Send one message at a time.")
    return message


def _text(message: dict[str, object], key: str) -> str:
    value = message[key]
    if not isinstance(value, str) or not value:
        raise UsageError(f"The value of `{key}` is not a name.", "Send text there.")
    return value


def _kind(message: dict[str, object]) -> ListenerKind:
    match message["kind"]:
        case "proxy" | "transparent" | "dns-udp" | "dns-tcp" as kind:
            return kind
        case _:
            raise UsageError(
                "There is no such kind of listener.", "Name proxy, transparent, dns-udp or dns-tcp."
            )


def _port(message: dict[str, object]) -> int:
    port = message["port"]
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        raise UsageError("The port is none.", "Send the port that the sandbox dials.")
    return port


def _socket(descriptor: int, kind: ListenerKind) -> socket.socket:
    """Return the socket of a descriptor if it is one of that kind; else close it and raise `UsageError`."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise UsageError("The descriptor is no socket.", "Send a listening socket.") from None
    if not _is_fit(sock, kind):
        sock.close()
        raise UsageError("The socket does not fit its kind.", "Send a listening TCP or a bound UDP socket.")
    return sock


def _is_fit(sock: socket.socket, kind: ListenerKind) -> bool:
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or not sock.getsockname()[1]:
        return False
    if kind == "dns-udp":
        return sock.type == socket.SOCK_DGRAM and sock.proto == socket.IPPROTO_UDP
    # MPTCP and other stream protocols would keep asyncio from sending at once.
    is_tcp = sock.type == socket.SOCK_STREAM and sock.proto == socket.IPPROTO_TCP
    return is_tcp and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
