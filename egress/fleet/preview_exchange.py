"""Carries one request of a browser to a port of a sandbox, and its response: parsed strictly, written anew.

A connection carries one exchange, and both heads say so. A second request on it would pass unchecked after
the first, and bring the cookie into the sandbox. After a switch of protocols, which is how a WebSocket
begins, bytes pass unchanged.

Two threads work on it: the caller's reads from the browser, a second one from the sandbox.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from egress.errors import WireError
from egress.fleet.preview_access import (
    PreviewDecision,
    PreviewForward,
    PreviewRedirect,
    PreviewRefusal,
    ShownPort,
    with_own_cookies,
)
from egress.http1 import (
    Data,
    End,
    Framing,
    Informational,
    MessageLimits,
    RequestHead,
    RequestReader,
    RequestWriter,
    ResponseHead,
    ResponseReader,
    ResponseWriter,
    framing_for,
    strip_hop_by_hop,
)
from egress.runtime.errors import SandboxError
from egress.types import Headers

_HEAD_LIMITS: Final = MessageLimits(head=32 * 1024, target=8 * 1024)
_HEAD_TIMEOUT: Final = 15.0
"""Seconds for a whole request head to arrive, and for a response of ours to be read."""
_BROWSER_CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks whether a waiting browser is still connected."""
_READ_BYTES: Final = 64 * 1024
_REASON_PHRASES: Final = {
    200: "OK",
    303: "See Other",
    400: "Bad Request",
    403: "Forbidden",
    421: "Misdirected Request",
    429: "Too Many Requests",
}

DecideCall = Callable[[RequestHead], PreviewDecision]
DialCall = Callable[[str, int], socket.socket]
TouchCall = Callable[[str], object]


class PreviewExchange:
    """A connection of a browser."""

    def __init__(self, sock: socket.socket, decide: DecideCall, dial: DialCall, touch: TouchCall) -> None:
        self._browser = sock
        self._decide = decide
        self._dial = dial
        self._touch = touch
        self._reader = RequestReader(_HEAD_LIMITS)
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._inside: socket.socket | None = None
        self._is_over = False
        self.shown: ShownPort | None = None
        """The exposed port, once the request is allowed."""

    def run(self) -> None:
        """Carry the exchange to its end. Never raises for the behaviour of either side."""
        try:
            # Another thread may close the exchange before its first step: the socket is gone then.
            with suppress(OSError):
                self._exchange()
        finally:
            self.close()

    def close(self) -> None:
        """End the exchange, from any thread."""
        with self._lock:
            self._is_over = True
            for sock in (self._browser, self._inside):
                if sock is not None:
                    # Closing alone does not wake a thread that waits in recv.
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)
                    sock.close()

    # Steps

    def _exchange(self) -> None:
        try:
            found = self._head()
            if found is None:
                return
            head, events = found
            verdict = self._decide(head)
        except WireError as error:
            self._answer(error.status, error.message)
            return
        # The first request brings the token; its response moves the token into a cookie.
        if isinstance(verdict, PreviewRedirect):
            more: Headers = (("set-cookie", verdict.cookie), ("referrer-policy", "no-referrer"))
            if verdict.is_linked:
                # The page that comes back by itself does so from this origin, and with the cookie.
                self._answer(200, "Opening the preview.", (("refresh", f"0;url={verdict.location}"), *more))
            else:
                self._answer(303, "", (("location", verdict.location), *more))
        elif isinstance(verdict, PreviewRefusal):
            self._answer(verdict.status, verdict.text)
        else:
            self._pass(head, events, verdict)

    def _head(self) -> tuple[RequestHead, list[Data | End]] | None:
        while data := self._received():
            head, *rest = self._reader.feed(data) or (None,)
            if isinstance(head, RequestHead):
                return head, [each for each in rest if isinstance(each, Data | End)]
        return None

    def _received(self) -> bytes:
        """The next bytes of a head. Raises `TimeoutError` when the time for all of it is over."""
        left = self._began + _HEAD_TIMEOUT - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._browser.settimeout(left)
        return self._browser.recv(_READ_BYTES)

    def _pass(self, head: RequestHead, events: list[Data | End], passed: PreviewForward) -> None:
        self.shown = passed.to
        # Decided again: `unexpose` finds this exchange by `shown` from here on, and may have run just before.
        if not isinstance(self._decide(head), PreviewForward):
            return
        try:
            inside = self._dial(passed.to.sandbox, passed.to.port)
        except SandboxError as error:
            self._answer(502, error.message)
            return
        # `close` may have run while the port was dialled; the new socket must not outlive the exchange.
        with self._lock:
            self._inside = inside
            if self._is_over:
                inside.close()
                return
        self._browser.settimeout(None)
        inside.settimeout(None)
        writer = RequestWriter()
        try:
            line = writer.head(
                head.method,
                passed.target,
                passed.headers,
                head.framing,
                close=not head.upgrade,
                upgrade=head.upgrade,
                expect_continue=head.expect_continue,
            )
        except WireError as error:
            self._answer(400, error.message)
            return
        inside.sendall(line)
        back = _ResponseRelay(self._browser, inside, head, lambda: self._touch(passed.to.sandbox))
        back.start()
        try:
            self._forward(inside, writer, events, back, passed.to.sandbox)
        except (WireError, OSError, SandboxError):
            self.close()
        finally:
            back.join()

    def _forward(
        self,
        inside: socket.socket,
        writer: RequestWriter,
        events: list[Data | End],
        back: _ResponseRelay,
        sandbox: str,
    ) -> None:
        while True:
            if not _send_body(inside, writer, events):
                # The sandbox takes no more of the body; a response that says so may be on its way.
                return
            # The browser has no more to send: the body is complete, or it asked for another protocol.
            if self._reader.waiting:
                break
            data = self._browser.recv(_READ_BYTES)
            self._touch(sandbox)
            found = self._reader.feed(data) if data else self._reader.eof()
            events = [each for each in found if isinstance(each, Data | End)]
        if not back.has_switched():
            return
        pending = self._reader.detach()
        while pending or (pending := self._browser.recv(_READ_BYTES)):
            self._touch(sandbox)
            inside.sendall(pending)
            pending = b""
        with suppress(OSError):
            inside.shutdown(socket.SHUT_WR)

    def _answer(self, status: int, text: str, headers: Headers = ()) -> None:
        """Send a response of our own."""
        body = f"{text}\n".encode() if text else b""
        writer = ResponseWriter()
        writer.answer(None)
        fields = (*headers, ("cache-control", "no-store"), ("content-type", "text/plain; charset=utf-8"))
        head = writer.head(
            status, _REASON_PHRASES.get(status, "Refused"), fields, Framing.sized(len(body)), close=True
        )
        self._browser.settimeout(_HEAD_TIMEOUT)
        self._browser.sendall(head + writer.data(body) + writer.end())
        # Read what the browser still sends: closing on unread bytes resets the connection before it reads us.
        with suppress(OSError):
            self._browser.shutdown(socket.SHUT_WR)
            # Not for longer: a client that sends without end would keep this thread.
            until = time.monotonic() + _HEAD_TIMEOUT
            while time.monotonic() < until and self._browser.recv(_READ_BYTES):
                pass


def _send_body(inside: socket.socket, writer: RequestWriter, events: list[Data | End]) -> bool:
    """Forward pieces of a body; false if the sandbox takes no more."""
    for event in events:
        data = writer.data(event.data) if isinstance(event, Data) else writer.end()
        try:
            # An empty write fails as well if the other side has closed.
            if data:
                inside.sendall(data)
        except OSError:
            return False
    return True


class _ResponseRelay:
    """Copies the response from the sandbox to the browser."""

    def __init__(
        self, browser: socket.socket, inside: socket.socket, head: RequestHead, touch: Callable[[], object]
    ) -> None:
        self._browser = browser
        self._inside = inside
        self._touch = touch
        self._reader = ResponseReader(_HEAD_LIMITS)
        self._reader.expect(head.method, upgrade=head.upgrade)
        self._writer = ResponseWriter()
        self._writer.answer(head)
        self._version = head.version
        self._decided = threading.Event()
        self._switched = False
        self._pieces = 0
        self._thread = threading.Thread(target=self._run, name="egress-preview-back", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def has_switched(self) -> bool:
        """Wait for the response, and say whether it switches to another protocol.

        Raises `OSError` if the browser is gone and no bytes arrive: a program in the sandbox could otherwise
        hold a connection for ever, and connections are limited for all sandboxes together.
        """
        look = select.poll()
        try:
            look.register(self._browser, select.POLLRDHUP)
        except ValueError:
            # The socket was closed by `close`.
            raise ConnectionAbortedError from None
        while not self._decided.wait(_BROWSER_CHECK_INTERVAL):
            seen = self._pieces
            if look.poll(0) and not self._decided.wait(_HEAD_TIMEOUT) and seen == self._pieces:
                raise ConnectionAbortedError
        return self._switched

    def _run(self) -> None:
        with suppress(OSError, SandboxError):
            try:
                self._respond()
            except WireError:
                self._send_bad_gateway()
        self._decided.set()
        # The browser learns that the response is complete; anything it still sends is dropped.
        with suppress(OSError):
            self._browser.shutdown(socket.SHUT_RDWR)

    def _respond(self) -> None:
        while not self._reader.waiting:
            data = self._inside.recv(_READ_BYTES)
            self._pieces += 1
            self._touch()
            for event in self._reader.feed(data) if data else self._reader.eof():
                self._browser.sendall(self._written(event))
        if not self._switched:
            return
        pending = self._reader.detach()
        self._decided.set()
        while pending or (pending := self._inside.recv(_READ_BYTES)):
            self._touch()
            self._browser.sendall(pending)
            pending = b""

    def _written(self, event: ResponseHead | Informational | Data | End) -> bytes:
        match event:
            case Informational():
                headers = with_own_cookies(strip_hop_by_hop(event.headers))
                return self._writer.informational(event.status, event.reason, headers)
            case ResponseHead():
                self._switched = event.status == 101
                # The browser may speak HTTP/1.0, which knows no chunks.
                framing = event.framing if self._switched else framing_for(event.framing, self._version)
                return self._writer.head(
                    event.status,
                    event.reason,
                    with_own_cookies(strip_hop_by_hop(event.headers)),
                    framing,
                    close=not self._switched,
                    upgrade=event.upgrade if self._switched else (),
                )
            case Data():
                return self._writer.data(event.data)
            case End():
                if not self._switched:
                    self._decided.set()
                return self._writer.end(event.trailers)

    def _send_bad_gateway(self) -> None:
        """Send a 502 instead of an invalid response, unless a part of that was forwarded already."""
        if self._writer.open or self._switched:
            return
        body = b"The program on this port does not speak HTTP.\n"
        with suppress(WireError):
            head = self._writer.head(502, "Bad Gateway", (), Framing.sized(len(body)), close=True)
            self._browser.sendall(head + self._writer.data(body) + self._writer.end())
