"""Previews: ports of sandboxes for browsers on this machine, each at its own address behind a token.

Previews listen on the host's loopback, which no sandbox can reach and which the proxy never dials. The
network of the sandbox is not opened: its runtime dials the port.
"""

from __future__ import annotations

import errno
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from egress.errors import reason_of
from egress.fleet.errors import PreviewError
from egress.fleet.preview_access import (
    LABEL_ALPHABET,
    RANDOM_LENGTH,
    PreviewDecision,
    PreviewForward,
    PreviewRefusal,
    ShownPort,
    decide_preview,
    port_label,
)
from egress.fleet.preview_exchange import DialCall, PreviewExchange, TouchCall
from egress.fleet.protocol import Preview
from egress.http1 import RequestHead
from egress.runtime.spec import check_ports

_LOOPBACK_HOST: Final = "127.0.0.1"
_LOOPBACK_IPV6_HOST: Final = "::1"
_MAX_TRIES: Final = 20
_MAX_CONNECTIONS: Final = 256
"""Connections at a time, of all browsers together."""
_MAX_CONNECTIONS_PER_PORT: Final = 64
"""Connections to one port: the page that it serves can open as many as it likes."""
_TOKEN_BYTES: Final = 32
_ACCEPT_RETRY_INTERVAL: Final = 0.05


class Previews:
    """The exposed ports, from the first `expose` to `close`."""

    def __init__(self, dial: DialCall, touch: TouchCall) -> None:
        """`dial` connects to a port of a sandbox; `touch` records a use of one. Nothing listens yet."""
        self._dial = dial
        self._touch = touch
        self._lock = threading.Lock()
        self._shown: dict[str, ShownPort] = {}
        self._carries: dict[PreviewExchange, None] = {}
        """Open connections, oldest first."""
        self._listener: socket.socket | None = None
        self._twin: socket.socket | None = None
        self._is_closed = False

    def expose(self, sandbox: str, port: int) -> str:
        """Expose a port, and return its address. The address stays the same until `unexpose`."""
        check_ports((port,))
        with self._lock:
            for each in self._shown.values():
                if (each.sandbox, each.port) == (sandbox, port):
                    return each.url
            chance = "".join(secrets.choice(LABEL_ALPHABET) for _ in range(RANDOM_LENGTH))
            host = f"{port_label(sandbox, port, chance)}.localhost:{self._open()}"
            shown = self._shown[host] = ShownPort(sandbox, port, host, secrets.token_urlsafe(_TOKEN_BYTES))
            return shown.url

    def unexpose(self, sandbox: str, port: int) -> None:
        """Withdraw a port, and close its connections."""
        self._end(lambda each: (each.sandbox, each.port) == (sandbox, port))

    def forget(self, sandbox: str) -> None:
        """Withdraw all ports of a sandbox."""
        self._end(lambda each: each.sandbox == sandbox)

    def all(self) -> tuple[Preview, ...]:
        with self._lock:
            found = [Preview(each.sandbox, each.port, each.url) for each in self._shown.values()]
        return tuple(sorted(found, key=lambda each: (each.sandbox, each.port)))

    def close(self) -> None:
        """Withdraw all ports, and stop listening."""
        with self._lock:
            self._is_closed = True
            self._shown.clear()
            listener, self._listener = self._listener, None
            if self._twin is not None:
                self._twin.close()
            carries = list(self._carries)
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for carry in carries:
            carry.close()

    # Internals

    def _end(self, fits: Callable[[ShownPort], bool]) -> None:
        with self._lock:
            self._shown = {host: each for host, each in self._shown.items() if not fits(each)}
            carries = list(self._carries)
        for carry in carries:
            if carry.shown is not None and fits(carry.shown):
                carry.close()

    def _open(self) -> int:
        """Start listening if necessary, and return the port. The caller holds the lock."""
        if self._is_closed:
            raise PreviewError("this fleet is closed", "open it again")
        if self._listener is None:
            try:
                self._listener, self._twin = _listen()
            except OSError as error:
                reason = reason_of(error)
                raise PreviewError(
                    f"cannot open a port for previews: {reason}", "close other programs"
                ) from None
            threading.Thread(
                target=self._accept, args=(self._listener,), name="egress-previews", daemon=True
            ).start()
        return int(self._listener.getsockname()[1])

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                if listener.fileno() < 0 or self._is_closed:
                    return
                # The connection is gone again, or no descriptor is free just now.
                time.sleep(_ACCEPT_RETRY_INTERVAL)
                continue
            self._take(sock)

    def _take(self, sock: socket.socket) -> None:
        carry = PreviewExchange(sock, lambda head: self._decide(head, carry), self._dial, self._touch)
        with self._lock:
            full = len(self._carries) >= _MAX_CONNECTIONS
            # A full table drops its oldest connection without a request: any local process can connect and
            # stay silent.
            silent = next((each for each in self._carries if each.shown is None), None) if full else None
            if self._is_closed or (full and silent is None):
                sock.close()
                return
            if silent is not None:
                del self._carries[silent]
            self._carries[carry] = None
        if silent is not None:
            silent.close()
        threading.Thread(target=self._run, args=(carry,), name="egress-preview", daemon=True).start()

    def _run(self, carry: PreviewExchange) -> None:
        try:
            carry.run()
        finally:
            with self._lock:
                self._carries.pop(carry, None)

    def _decide(self, head: RequestHead, carry: PreviewExchange) -> PreviewDecision:
        with self._lock:
            # Under the lock, so that `unexpose` cannot withdraw the port between the decision and the count.
            verdict = decide_preview(head, self._shown)
            if not isinstance(verdict, PreviewForward):
                return verdict
            others = sum(each.shown is verdict.to for each in self._carries if each is not carry)
        return (
            verdict
            if others < _MAX_CONNECTIONS_PER_PORT
            else PreviewRefusal(429, "Too many connections to this port.")
        )


def _listen() -> tuple[socket.socket, socket.socket | None]:
    """Listen on IPv4 loopback, and reserve the same port on IPv6 loopback.

    Browsers resolve a name below `localhost` to both, and try IPv6 first: a process that listened there would
    receive the token. With the port reserved and nothing listening, browsers fall back to IPv4. Raises
    `OSError`.
    """
    for tries_left in reversed(range(_MAX_TRIES)):
        listener = socket.create_server((_LOOPBACK_HOST, 0), backlog=64)
        try:
            return listener, _reserve_port(listener.getsockname()[1])
        except OSError:
            listener.close()
            if not tries_left:
                raise
    raise AssertionError("not reached")


def _reserve_port(port: int) -> socket.socket | None:
    """Bind the port on IPv6 loopback without listening; None if the machine has no IPv6 loopback."""
    try:
        twin = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        twin.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        twin.bind((_LOOPBACK_IPV6_HOST, port))
    except OSError as error:
        twin.close()
        if error.errno == errno.EADDRNOTAVAIL:
            return None
        raise
    return twin
