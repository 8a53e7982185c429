"""What code in a sandbox can do with a socket: send any bytes, and see all that comes back.

Plain, blocking and lenient; nothing is added, corrected or followed. A connection that ends where an answer
should be is an answer, too: one with the status 0. All that was received is kept for the leak detector.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from tests.proxy.lab.certificates import trusting
from tests.proxy.lab.http1 import Fields, parse_fields, value

PATIENCE: Final = 10.0
"""Seconds after which nothing comes any more. Nothing that does come takes nearly as long."""
KEPT: Final = 64 * 1024 * 1024
CHUNK: Final = 256 * 1024

Place = tuple[str, int]


@dataclass(slots=True)
class Answer:
    """A response as it came; status 0 when the connection ended, or went silent, without one."""

    raw: bytes = b""
    """The head with its empty line."""
    body: bytes = b""
    before: list[Answer] = field(default_factory=list)
    """Interim responses that came first."""
    trailers: bytes = b""
    complete: bool = False
    """The body has come to its stated end."""
    silent: bool = False
    """Nothing came for as long as the client waited."""

    @property
    def start(self) -> str:
        return self.raw.partition(b"\r\n")[0].decode("latin-1")

    @property
    def status(self) -> int:
        parts = self.start.split(" ", 2)
        is_http = len(parts) > 1 and parts[0].startswith("HTTP/") and parts[1].isdigit()
        return int(parts[1]) if is_http else 0

    @property
    def fields(self) -> Fields:
        return parse_fields(self.raw.split(b"\r\n")[1:-2])

    @property
    def code(self) -> str:
        """Why Egress refused; "" when the answer is not one of its refusals."""
        return self.header("egress-denied") or ""

    def header(self, name: str) -> str | None:
        return value(self.fields, name)

    def __str__(self) -> str:
        silence = "silence" if self.silent else "the end of the connection"
        return f"{self.start or silence} {self.code}".strip()


class Line:
    """One connection from the sandbox."""

    def __init__(self, sock: socket.socket, place: Place) -> None:
        self.local: Place = sock.getsockname()[:2]
        self.place = place
        self.received = bytearray()
        """All that came, decrypted since TLS began."""
        self.answer = Answer()
        """What CONNECT was answered with."""
        self.failure = ""
        """Why TLS failed, in OpenSSL's words."""
        self._buffer = bytearray()
        self._sock: socket.socket | ssl.SSLSocket = sock
        self._sock.settimeout(PATIENCE)
        self.ended = False
        self.silent = False

    # Sending

    def send(self, data: bytes) -> Self:
        """Send as much as the other side takes; that it has hung up shows in what is read."""
        with contextlib.suppress(OSError):
            self._sock.sendall(data)
        return self

    def finish(self) -> Self:
        """Send nothing more; reading goes on."""
        with contextlib.suppress(OSError):
            # Under TLS, too, and without a goodbye; its own `shutdown` would stop decrypting.
            socket.socket.shutdown(self._sock, socket.SHUT_WR)
        return self

    def to_tls(
        self,
        ca_pem: bytes,
        name: str | None,
        alpn: Sequence[str] = ("http/1.1",),
        *,
        verify: bool = True,
        context: ssl.SSLContext | None = None,
        session: ssl.SSLSession | None = None,
    ) -> bool:
        """Shake hands for a name, or for none; whether that went well. A session needs its context."""
        chosen = context or trusting(ca_pem, alpn)
        if not verify or name is None:
            chosen.check_hostname = False
            chosen.verify_mode = ssl.CERT_NONE
        try:
            self._sock = chosen.wrap_socket(self._sock, server_hostname=name, session=session)
        except OSError as error:
            self.failure = getattr(error, "reason", None) or type(error).__name__
            self.ended = True
            return False
        return True

    @property
    def alpn(self) -> str | None:
        return self._sock.selected_alpn_protocol() if isinstance(self._sock, ssl.SSLSocket) else None

    @property
    def session(self) -> ssl.SSLSession | None:
        """What could be taken up later, once an answer was read."""
        return self._sock.session if isinstance(self._sock, ssl.SSLSocket) else None

    @property
    def is_resumed(self) -> bool:
        return isinstance(self._sock, ssl.SSLSocket) and bool(self._sock.session_reused)

    @property
    def certificate(self) -> bytes | None:
        """What the other side showed, as DER."""
        return self._sock.getpeercert(binary_form=True) if isinstance(self._sock, ssl.SSLSocket) else None

    # Reading

    def some(self) -> bytes:
        """What is there, at least one byte; b"" when the connection has ended, or nothing comes."""
        if self._buffer:
            found = bytes(self._buffer)
            self._buffer.clear()
            return found
        return self._receive()

    def until(self, mark: bytes) -> bytes:
        """Everything up to and with the mark; without it, all there was."""
        while (at := self._buffer.find(mark)) < 0:
            if not (data := self._receive()):
                at = len(self._buffer)
                break
            self._buffer += data
        return self._take(at + len(mark))

    def exactly(self, count: int) -> bytes:
        """So many bytes; fewer when no more come."""
        while len(self._buffer) < count and (data := self._receive()):
            self._buffer += data
        return self._take(count)

    def everything(self) -> bytes:
        """All until the connection ends."""
        parts = []
        while part := self.some():
            parts.append(part)
        return b"".join(parts)

    def response(self, method: str = "GET") -> Answer:
        """The next final response, and what came before it."""
        before: list[Answer] = []
        while True:
            answer = self.head()
            if answer.status == 101 or not 100 <= answer.status < 200:
                break
            before.append(answer)
        answer.before = before
        if answer.status and answer.status != 101:
            self._read_body(answer, method)
        return answer

    def head(self) -> Answer:
        """The next head; whatever is no head is its `raw`."""
        raw = self.until(b"\r\n\r\n")
        return Answer(raw, silent=self.silent)

    def _read_body(self, answer: Answer, method: str) -> None:
        length = answer.header("content-length")
        if method == "HEAD" or answer.status in {204, 304} or (method == "CONNECT" and answer.status < 300):
            answer.complete = True
        elif "chunked" in (answer.header("transfer-encoding") or "").lower():
            self._read_chunks(answer)
        elif length is not None and length.isdigit():
            answer.body = self.exactly(int(length))
            answer.complete = len(answer.body) == int(length)
        else:
            answer.body = self.everything()
            answer.complete = not self.silent

    def _read_chunks(self, answer: Answer) -> None:
        parts: list[bytes] = []
        while True:
            line = self.until(b"\r\n").split(b";")[0].strip()
            try:
                size = int(line, 16)
            except ValueError:
                break
            if not size:
                answer.complete = True
                while (trailer := self.until(b"\r\n")) not in (b"\r\n", b""):
                    answer.trailers += trailer
                break
            parts.append(self.exactly(size))
            self.until(b"\r\n")
        answer.body = b"".join(parts)

    def _receive(self) -> bytes:
        if self.ended or self.silent:
            return b""
        try:
            data = self._sock.recv(CHUNK)
        except TimeoutError:
            self.silent, data = True, b""
        except OSError as error:
            self.failure = getattr(error, "reason", None) or type(error).__name__
            data = b""
        self.ended = not data and not self.silent
        self.received += data[: max(0, KEPT - len(self.received))]
        return data

    def _take(self, count: int) -> bytes:
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found

    # Ending

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def request(host: str, target: str = "/echo", *extra: str, method: str = "GET", body: bytes = b"") -> bytes:
    """A request as it should be; `extra` are header lines."""
    lines = [f"{method} {target} HTTP/1.1", f"host: {host}", *extra]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def basic(user: str, password: str) -> str:
    """The value of an Authorization header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
