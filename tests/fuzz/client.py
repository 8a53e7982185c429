"""The sandbox of a case: says what its sample says, on its way in, and keeps all that comes back."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tests.attack.lab.client import Line
from tests.attack.lab.names import DOOR
from tests.attack.lab.proxies import LISTEN, Egress, Proxy
from tests.fuzz.cases import CLOSES, WHOLE
from tests.fuzz.frames import H2Seen, ws_seen
from tests.fuzz.sample import Sample
from tests.proxy.lab.certificates import trusting

SILENCE: Final = 0.15
"""Seconds after which a proxy that may wait for more is not waited for."""
PATIENCE: Final = 20.0
"""Seconds after which one that has to close does not."""
_LAST: Final = re.compile(rb"\r\nconnection: close\r\n", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\ncontent-length: ([0-9]{1,9})")


@dataclass(slots=True)
class Got:
    """What a client got to see."""

    views: list[bytes]
    """The bytes, and what stands in them where they are framed."""
    hangs: bool = False
    """The proxy owed an end and did not come to it."""


class Sandbox:
    """All clients of a run; safe to use from several threads."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        # The naive one keeps people waiting whenever it does not understand them.
        self._patience = PATIENCE if isinstance(proxy, Egress) else 0.5
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}
        self._lock = threading.Lock()

    def play(self, sample: Sample) -> Got:
        """One case, from its first byte to the end."""
        entry, host, ending = sample.words
        if entry == "udp":
            return self._datagram(sample)
        line = self._open(entry, host)
        with line:
            if line.ended or line.silent:
                return Got([line.answer.raw + bytes(line.received)])
            if entry == "h2":
                return self._http2(line, sample, ending)
            if entry == "ws":
                return self._websocket(line, sample)
            for piece in sample.client:
                line.send(piece)
            ended = _drain(line, self._patience if ending == CLOSES else SILENCE)
            return Got([bytes(line.received)], hangs=ending == CLOSES and not ended)

    def _open(self, entry: str, host: str) -> Line:
        match entry:
            case "raw":
                return self._dial(LISTEN)
            case "clear":
                return self._dial((DOOR, 80))
            case "door":
                return self._dial((DOOR, 443))
            case "tcp":
                return self._dial((DOOR, 53))
            case "sni":
                line = self._dial((DOOR, 443))
                line.to_tls(b"", host, context=self._context("http/1.1"))
                return line
        line = self._dial(LISTEN)
        line.send(f"CONNECT {host}:443 HTTP/1.1\r\nhost: {host}:443\r\n\r\n".encode())
        line.answer = line.response("CONNECT")
        if line.answer.status != 200:
            line.ended = True
        elif entry != "tunnel":
            line.to_tls(b"", host, context=self._context("h2" if entry == "h2" else "http/1.1"))
        return line

    def _dial(self, place: tuple[str, int]) -> Line:
        line = self._proxy.dial(place)
        line._sock.settimeout(self._patience)
        line._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return line

    def _context(self, *alpn: str) -> ssl.SSLContext:
        with self._lock:
            if alpn not in self._contexts:
                self._contexts[alpn] = trusting(self._proxy.ca_pem, alpn)
            return self._contexts[alpn]

    def _http2(self, line: Line, sample: Sample, ending: str) -> Got:
        seen = H2Seen()
        for piece in sample.client:
            line.send(piece)
        wanted = {2 * number + 1 for number in range(len(sample.replies))}
        line._sock.settimeout(self._patience if ending == WHOLE else SILENCE)
        while not (wanted <= seen.ended or 0 in seen.ended) and (data := line.some()):
            seen.feed(data)
        is_whole = wanted <= seen.ended
        return Got([bytes(line.received), seen.everything()], hangs=ending == WHOLE and not is_whole)

    def _websocket(self, line: Line, sample: Sample) -> Got:
        line.send(sample.client[0])
        line._sock.settimeout(1)
        line.until(b"\r\n\r\n")
        for piece in sample.client[1:]:
            line.send(piece)
        _drain(line, SILENCE)
        received = bytes(line.received)
        return Got([received, ws_seen(received.partition(b"\r\n\r\n")[2])])

    def _datagram(self, sample: Sample) -> Got:
        with self._proxy.room.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", 0))
            self._proxy.clients.setdefault(sock.getsockname(), set()).add((DOOR, 53))
            sock.settimeout(SILENCE)
            views = []
            with suppress(OSError):
                for piece in sample.client:
                    sock.sendto(piece, (DOOR, 53))
                views.append(sock.recv(65535))
        return Got(views)


def _drain(line: Line, patience: float) -> bool:
    """Read on until nothing comes for that long; whether the connection has ended, or said that it will."""
    while True:
        is_last, is_whole = _goodbye(bytes(line.received))
        if is_whole:
            return True
        with suppress(OSError):
            line._sock.settimeout(SILENCE if is_last else patience)
        if not line.some():
            return line.ended or is_last


def _goodbye(data: bytes) -> tuple[bool, bool]:
    """Whether the last response of a connection has begun, and whether it is whole.

    The proxy lets its client read that in peace, for longer than anybody here wants to wait.
    """
    found = _LAST.search(data)
    end = data.find(b"\r\n\r\n", found.end() - 2) if found else -1
    if found is None or end < 0:
        return False, False
    head = data[data.rfind(b"HTTP/1.1 ", 0, found.start()) : end].lower()
    rest = data[end + 4 :]
    if length := _LENGTH.search(head):
        return True, len(rest) >= int(length[1])
    return True, b"chunked" in head and rest.endswith(b"\r\n\r\n")
