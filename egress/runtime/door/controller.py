"""Keeps the door of one sandbox, from outside: sends it to open sockets, and looks at what comes back.

The keeper listens on a unix socket, alone in a folder that is given to the door and to nobody else. The door
is a process in the sandbox's network, so what it passes is not believed: a descriptor has to be exactly the
socket that was asked for. It keeps them all, to hand them over again to a proxy that has returned: the door
itself is never asked twice, and the sandbox notices nothing but a pause.

When the keeper ends the door ends, and the network of the sandbox with it. It must not know the proxy.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Literal, Self

from egress.errors import reason_of
from egress.runtime.errors import DoorError, PortClosedError
from egress.runtime.proxy_client import SandboxListener, SandboxListenerKind
from egress.unix.descriptors import receive
from egress.unix.stream_socket import listen

SOCKET_NAME: Final = "door.sock"
PROXY_PORT: Final = 3128
_DOOR_TIMEOUT: Final = 30.0
_POLL_INTERVAL: Final = 0.2
"""Seconds between two looks at whether the door still lives, while it is waited for."""
_MAX_ANSWER_BYTES: Final = 256
_REFUSED_ANSWER: Final = b"no connection refused\n"

Transport = Literal["tcp", "udp"]


def default_ports(ports: tuple[int, ...] = ()) -> tuple[tuple[SandboxListenerKind, int], ...]:
    """What every sandbox needs, and further ports that land at the proxy; each port once."""
    transparent = sorted({80, 443, *ports} - {53, PROXY_PORT})
    named: list[tuple[SandboxListenerKind, int]] = [("transparent", port) for port in transparent]
    return (("proxy", PROXY_PORT), *named, ("dns-udp", 53), ("dns-tcp", 53))


class DoorController:
    """One door, from before it is there until after."""

    def __init__(self, folder: Path, host: str) -> None:
        """Listen in a folder that exists and is empty; `host` is the address that the door will have.

        Raises `DoorError`.
        """
        self._host = host
        self._door: socket.socket | None = None
        self._lock = threading.Lock()
        self._held = ExitStack()
        self.listeners: tuple[SandboxListener, ...] = ()
        self._sock = _listen(folder / SOCKET_NAME)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up, and close all that the door has passed."""
        with suppress(OSError):
            if self._door is not None:
                # Whoever waits for an answer gets none.
                self._door.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._sock.close()
            if self._door is not None:
                self._door.close()
            self._held.close()
            self.listeners = ()

    def wait(self, is_alive: Callable[[], bool]) -> None:
        """Wait until the door is there. Raises `DoorError`, also where it ended before it came."""
        self._sock.settimeout(_POLL_INTERVAL)
        for _ in range(int(_DOOR_TIMEOUT / _POLL_INTERVAL)):
            with suppress(TimeoutError):
                self._door, _ = self._sock.accept()
                self._door.settimeout(_DOOR_TIMEOUT)
                return
            if not is_alive():
                raise DoorError(
                    "the door ended before it had opened anything", "look at what the engine logged"
                )
        raise DoorError("the door did not come in time", "look at what the engine logged")

    @property
    def is_connected(self) -> bool:
        """Whether the door is there: it came, and has not hung up."""
        if self._door is None:
            return False
        look = select.poll()
        look.register(self._door, select.POLLIN)
        # It says nothing unless it is asked, so what can be read is its end.
        return not look.poll(0)

    def open(self, wanted: tuple[tuple[SandboxListenerKind, int], ...]) -> tuple[SandboxListener, ...]:
        """Have these opened; returns those that are new. Raises `DoorError`."""
        with self._lock:
            there = {(item.kind, item.port) for item in self.listeners}
            opened = tuple(self._open_port(kind, port) for kind, port in wanted if (kind, port) not in there)
            self.listeners += opened
            return opened

    def dial(self, host: str, port: int) -> socket.socket:
        """A connection to a port in the sandbox's network. Raises `DoorError`, or `PortClosedError`."""
        with self._lock:
            sock = self._request(f"dial {host} {port}", closed=port)
            if not _is_connection(sock, (host, port)):
                sock.close()
                raise _protocol_error()
            return sock

    def _open_port(self, kind: SandboxListenerKind, port: int) -> SandboxListener:
        transport: Transport = "udp" if kind == "dns-udp" else "tcp"
        sock = self._request(f"{transport} {self._host} {port}")
        self._held.enter_context(sock)
        if not _is_listener(sock, transport, (self._host, port)):
            raise _protocol_error()
        return SandboxListener(kind, port, sock)

    def _request(self, line: str, closed: int = 0) -> socket.socket:
        """What the door passes. `closed`: the port that may be closed without anything being wrong."""
        if self._door is None:
            raise DoorError("the door is not there yet", "wait for it")
        try:
            self._door.sendall(f"{line}\n".encode())
            answer, descriptors = receive(self._door, _MAX_ANSWER_BYTES, 1)
        except OSError as error:
            raise DoorError(f"the door did not answer: {reason_of(error)}", "remove the sandbox") from None
        if answer == b"ok\n" and len(descriptors) == 1 and (sock := _as_socket(descriptors[0])):
            return sock
        for descriptor in descriptors:
            with suppress(OSError):
                os.close(descriptor)
        if closed and answer == _REFUSED_ANSWER:
            raise PortClosedError(
                f"nothing listens on port {closed} of the sandbox",
                "begin the program first, and let it listen on 0.0.0.0, not on 127.0.0.1",
            )
        raise DoorError(
            f"the door did not open what it was asked for ({line})", "nothing else may listen in its network"
        )


def _listen(path: Path) -> socket.socket:
    # The door has a user of its own. Which other users could come is settled by the folders above.
    mode = stat.S_IRUSR | stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
    try:
        return listen(path, 1, mode)
    except OSError as error:
        raise DoorError(
            f"the door's socket cannot be made: {reason_of(error)}", "name another folder for sandboxes"
        ) from None


def _as_socket(descriptor: int) -> socket.socket | None:
    try:
        return socket.socket(fileno=descriptor)
    except OSError:
        return None


def _is_listener(sock: socket.socket, transport: Transport, address: tuple[str, int]) -> bool:
    return (
        sock.family == socket.AF_INET
        and sock.type == (socket.SOCK_DGRAM if transport == "udp" else socket.SOCK_STREAM)
        and sock.proto == (socket.IPPROTO_UDP if transport == "udp" else socket.IPPROTO_TCP)
        and sock.getsockname() == address
        and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) == (transport == "tcp")
    )


def _is_connection(sock: socket.socket, address: tuple[str, int]) -> bool:
    try:
        return (
            sock.type == socket.SOCK_STREAM
            and sock.family == socket.AF_INET
            and sock.getpeername() == address
        )
    except OSError:
        return False


def _protocol_error() -> DoorError:
    return DoorError("the door passed another socket than it was asked for", "remove the sandbox")
