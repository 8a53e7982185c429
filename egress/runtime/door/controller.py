"""Controls the door of one sandbox from outside: asks it to open sockets, and verifies them.

The controller listens on a unix socket, in a folder that only the door gets. The door is a process in the
sandbox's network, so it is not trusted: each descriptor has to be exactly the requested socket. The
controller keeps all sockets, and hands them over again to a proxy that has returned: the door is not asked
twice, and the sandbox notices only a pause.

When the controller closes, the door ends, and the sandbox's network with it. It must not know the proxy.
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
"""Seconds between two checks whether a door that is waited for still lives."""
_MAX_ANSWER_BYTES: Final = 256
_REFUSED_ANSWER: Final = b"no connection refused\n"

Transport = Literal["tcp", "udp"]


def default_ports(ports: tuple[int, ...] = ()) -> tuple[tuple[SandboxListenerKind, int], ...]:
    """The ports that every sandbox needs, and further ports that lead to the proxy; each port once."""
    transparent = sorted({80, 443, *ports} - {53, PROXY_PORT})
    named: list[tuple[SandboxListenerKind, int]] = [("transparent", port) for port in transparent]
    return (("proxy", PROXY_PORT), *named, ("dns-udp", 53), ("dns-tcp", 53))


class DoorController:
    """A door, from before its start until after its end."""

    def __init__(self, folder: Path, host: str) -> None:
        """Listen in an empty folder; `host` is the address that the door will have.

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
        """Disconnect the door, and close all sockets that it has passed."""
        with suppress(OSError):
            if self._door is not None:
                # Wakes a thread that waits for an answer while it holds the lock.
                self._door.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._sock.close()
            if self._door is not None:
                self._door.close()
            self._held.close()
            self.listeners = ()

    def wait(self, is_alive: Callable[[], bool]) -> None:
        """Wait for the door to connect. Raises `DoorError`, also if the door ends before that."""
        self._sock.settimeout(_POLL_INTERVAL)
        for _ in range(int(_DOOR_TIMEOUT / _POLL_INTERVAL)):
            with suppress(TimeoutError):
                self._door, _ = self._sock.accept()
                self._door.settimeout(_DOOR_TIMEOUT)
                return
            if not is_alive():
                raise DoorError("the door ended during its start", "see the log of the engine")
        raise DoorError("the door did not connect in time", "see the log of the engine")

    @property
    def is_connected(self) -> bool:
        """Return whether the door has connected, and is still connected."""
        if self._door is None:
            return False
        look = select.poll()
        look.register(self._door, select.POLLIN)
        # The door only answers, so an unrequested readable event is its end.
        return not look.poll(0)

    def open(self, wanted: tuple[tuple[SandboxListenerKind, int], ...]) -> tuple[SandboxListener, ...]:
        """Open these ports, and return the listeners that are new. Raises `DoorError`."""
        with self._lock:
            there = {(item.kind, item.port) for item in self.listeners}
            opened = tuple(self._open_port(kind, port) for kind, port in wanted if (kind, port) not in there)
            self.listeners += opened
            return opened

    def dial(self, host: str, port: int) -> socket.socket:
        """Connect to a port in the sandbox's network. Raises `DoorError`, or `PortClosedError`."""
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
        """The socket for a request. `closed` is a port whose refusal is no error of the door."""
        if self._door is None:
            raise DoorError("the door has not connected yet", "wait for it")
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
                f"no program listens on port {closed} of the sandbox",
                "start the program first, and let it listen on 0.0.0.0, not on 127.0.0.1",
            )
        raise DoorError(
            f"the door did not open the requested port ({line})", "no other program may listen in its network"
        )


def _listen(path: Path) -> socket.socket:
    # The door runs as another user. The folders above keep all other users out.
    mode = stat.S_IRUSR | stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
    try:
        return listen(path, 1, mode)
    except OSError as error:
        raise DoorError(
            f"cannot create the door's socket: {reason_of(error)}", "choose another folder for sandboxes"
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
    return DoorError("the door passed a wrong socket", "remove the sandbox")
