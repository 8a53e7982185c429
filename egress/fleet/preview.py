"""Previews: ports of sandboxes for browsers and other clients, each at its own address behind a token.

Previews listen on the host's loopback unless the operator names another address. No sandbox can reach the
loopback, and the proxy never dials it. The network of the sandbox is not opened: its runtime dials the port.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
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
from egress.fleet.preview_listener import PreviewListener, local_listener
from egress.fleet.protocol import Preview
from egress.http1 import RequestHead
from egress.runtime.argument_types import check_number
from egress.runtime.errors import SpecError
from egress.runtime.spec import check_ports
from egress.wrong_tokens import WrongTokenBucket

_MAX_CONNECTIONS: Final = 256
"""Connections at a time, of all browsers together."""
_MAX_CONNECTIONS_PER_PORT: Final = 64
"""Connections to one port: the page that it serves can open as many as it likes."""
_MAX_CONNECTIONS_PER_SANDBOX: Final = 128
"""Connections to all ports of one sandbox: the others keep their share."""
_MAX_PREVIEWS: Final = 64
"""Exposed ports of one sandbox."""
_MAX_SECONDS: Final = 10.0**9
_TOKEN_BYTES: Final = 32
_ACCEPT_RETRY_INTERVAL: Final = 0.05


@dataclass(slots=True)
class _Showing:
    """An exposed port, with the time that it has and the wrong tokens that it was asked with."""

    shown: ShownPort
    wrong: WrongTokenBucket
    ends: float | None = None

    def has_ended(self, now: float) -> bool:
        return self.ends is not None and now >= self.ends

    def preview(self, now: float) -> Preview:
        shown, left = self.shown, None if self.ends is None else max(0.0, self.ends - now)
        return Preview(shown.sandbox, shown.port, shown.origin, shown.token, left)


class Previews:
    """The exposed ports, from the first `expose` to `close`."""

    def __init__(self, dial: DialCall, touch: TouchCall, clock: Callable[[], float] = time.monotonic) -> None:
        """`dial` connects to a port of a sandbox; `touch` records a use of one. Nothing listens yet."""
        self._dial = dial
        self._touch = touch
        self._clock = clock
        self._lock = threading.Lock()
        self._showings: dict[str, _Showing] = {}
        """By the hosts of requests."""
        self._carries: dict[PreviewExchange, None] = {}
        """Open connections, oldest first."""
        self._listener: PreviewListener | None = None
        self._is_closed = False

    def listen_at(self, listener: PreviewListener) -> None:
        """Serve previews there, instead of at an address of our choice. Comes before the first `expose`."""
        with self._lock:
            self._accept_from(listener)

    def expose(self, sandbox: str, port: int, expires: float | None = None) -> Preview:
        """Expose a port, for so many seconds if they are given. Its address stays until it ends.

        `expires` replaces the time that is left; without it that stays as it is. Raises `SpecError`.
        """
        check_ports((port,))
        _check_seconds(expires)
        with self._lock:
            now = self._clock()
            found = [each for each in self._living(now).values() if each.shown.sandbox == sandbox]
            showing = next((each for each in found if each.shown.port == port), None)
            if showing is None:
                if len(found) >= _MAX_PREVIEWS:
                    raise PreviewError(
                        f"the sandbox {sandbox} has {_MAX_PREVIEWS} previews",
                        "withdraw one that is not needed",
                    )
                showing = self._show(sandbox, port)
            if expires is not None:
                showing.ends = now + expires
            return showing.preview(now)

    def unexpose(self, sandbox: str, port: int) -> None:
        """Withdraw a port, and close its connections."""
        self._end(lambda each: (each.sandbox, each.port) == (sandbox, port))

    def forget(self, sandbox: str) -> None:
        """Withdraw all ports of a sandbox."""
        self._end(lambda each: each.sandbox == sandbox)

    def end_expired(self) -> None:
        """Close the connections of previews whose time is over. New ones are refused from that moment on."""
        with self._lock:
            now = self._clock()
            ended = {each.shown for each in self._showings.values() if each.has_ended(now)}
        if ended:
            self._end(lambda each: each in ended)

    def all(self) -> tuple[Preview, ...]:
        with self._lock:
            now = self._clock()
            found = [each.preview(now) for each in self._living(now).values()]
        return tuple(sorted(found, key=lambda each: (each.sandbox, each.port)))

    def close(self) -> None:
        """Withdraw all ports, and stop listening."""
        with self._lock:
            self._is_closed = True
            self._showings.clear()
            listener, self._listener = self._listener, None
            carries = list(self._carries)
        if listener is not None:
            listener.close()
        for carry in carries:
            carry.close()

    # Internals

    def _living(self, now: float) -> dict[str, _Showing]:
        """Previews whose time is not over. The caller holds the lock."""
        return {host: each for host, each in self._showings.items() if not each.has_ended(now)}

    def _show(self, sandbox: str, port: int) -> _Showing:
        """Give a port an address. The caller holds the lock."""
        listener = self._open()
        chance = "".join(secrets.choice(LABEL_ALPHABET) for _ in range(RANDOM_LENGTH))
        host = listener.host_of(port_label(sandbox, port, chance))
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        shown = ShownPort(sandbox, port, host, token, listener.scheme)
        made = self._showings[host] = _Showing(shown, WrongTokenBucket(self._clock))
        return made

    def _end(self, fits: Callable[[ShownPort], bool]) -> None:
        with self._lock:
            self._showings = {host: each for host, each in self._showings.items() if not fits(each.shown)}
            carries = list(self._carries)
        for carry in carries:
            if carry.shown is not None and fits(carry.shown):
                carry.close()

    def _open(self) -> PreviewListener:
        """Start listening if necessary. The caller holds the lock."""
        if self._is_closed:
            raise PreviewError("this fleet is closed", "open it again")
        if self._listener is not None:
            return self._listener
        try:
            made = local_listener()
        except OSError as error:
            reason = reason_of(error)
            raise PreviewError(f"cannot open a port for previews: {reason}", "close other programs") from None
        self._accept_from(made)
        return made

    def _accept_from(self, listener: PreviewListener) -> None:
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), name="egress-previews", daemon=True).start()

    def _accept(self, listener: PreviewListener) -> None:
        while not self._is_closed:
            try:
                sock = listener.accept()
            except OSError:
                # The connection is gone again, or no descriptor is free just now.
                time.sleep(_ACCEPT_RETRY_INTERVAL)
                continue
            if sock is None:
                return
            # A client that has left already must not hold up the next one.
            with suppress(OSError):
                self._take(listener.secured(sock))

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
            living = self._living(self._clock())
            verdict = decide_preview(head, {host: each.shown for host, each in living.items()})
            guessed = verdict.guessed if isinstance(verdict, PreviewRefusal) else None
            # The right token is never counted, so nobody who has it is kept waiting.
            if guessed is not None and not living[guessed.host].wrong.take():
                return PreviewRefusal(429, "Too many wrong tokens. Wait a second.")
            if not isinstance(verdict, PreviewForward):
                return verdict
            others = [each.shown for each in self._carries if each.shown is not None and each is not carry]
        if sum(each is verdict.to for each in others) >= _MAX_CONNECTIONS_PER_PORT:
            return PreviewRefusal(429, "Too many connections to this port.")
        if sum(each.sandbox == verdict.to.sandbox for each in others) >= _MAX_CONNECTIONS_PER_SANDBOX:
            return PreviewRefusal(429, "Too many connections to this sandbox.")
        return verdict


def _check_seconds(expires: float | None) -> None:
    if expires is None:
        return
    check_number("expires", expires)
    if not 0 < expires <= _MAX_SECONDS:
        raise SpecError("expires is out of range", "give a number of seconds above 0")
