"""The victim: `python -m bench.neighbours.victim STAGE SECONDS` prints its p50 and p99 as JSON.

A request over a kept connection every few milliseconds, and every tenth time one over a new connection.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import time

from bench.neighbours.setting import GOOD, Stage

PAUSE = 0.004
NEW_EVERY = 10
REQUEST_TIMEOUT = 20


class Visitor:
    """Asks for a small answer."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._context = ssl.create_default_context(cafile=stage.victim_ca)
        authority = f"{GOOD}:{stage.good}"
        self._connect = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()
        self._request = f"GET /small HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()

    def open(self) -> ssl.SSLSocket:
        sock = socket.create_connection(("127.0.0.1", self._stage.victim_proxy), timeout=REQUEST_TIMEOUT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(self._connect)
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += sock.recv(4096)
        return self._context.wrap_socket(sock, server_hostname=GOOD)

    def ask(self, sock: ssl.SSLSocket) -> None:
        sock.sendall(self._request)
        data = b""
        while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < _length(data):
            part = sock.recv(65536)
            if not part:
                sys.exit("the victim was cut off")
            data += part
        if not data.startswith(b"HTTP/1.1 200"):
            sys.exit(f"the victim got {data[:100]!r}")


def _length(data: bytes) -> int:
    head = data.lower().partition(b"\r\n\r\n")[0]
    return int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)


def visit(stage: Stage, seconds: float) -> dict[str, float]:
    visitor = Visitor(stage)
    kept_delays: list[float] = []
    new_delays: list[float] = []
    kept = visitor.open()
    visitor.ask(kept)
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        time.sleep(PAUSE)
        number += 1
        began = time.monotonic()
        if number % NEW_EVERY:
            visitor.ask(kept)
            kept_delays.append(time.monotonic() - began)
        else:
            fresh = visitor.open()
            visitor.ask(fresh)
            new_delays.append(time.monotonic() - began)
            fresh.close()
    return {
        **{f"kept_{name}": value for name, value in _figures(kept_delays).items()},
        **{f"new_{name}": value for name, value in _figures(new_delays).items()},
    }


def _figures(delays: list[float]) -> dict[str, float]:
    ordered = sorted(delays) or [0.0]
    return {
        "count": len(ordered),
        "p50": ordered[len(ordered) // 2] * 1e3,
        "p99": ordered[len(ordered) * 99 // 100] * 1e3,
    }


if __name__ == "__main__":
    print(json.dumps(visit(Stage.of(sys.argv[1]), float(sys.argv[2]))))
