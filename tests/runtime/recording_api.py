"""An API of somebody else's, on this machine: TLS, and every request is kept.

It answers whoever comes, and keeps what it was given: whether that is what it should be is for tests to say.
Below /repeat/ it says in its answer which credential that was.
"""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self, override


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request."""

    path: str
    authorization: str
    body: bytes = b""


class RecordingApi:
    """Serves from `with` to its end."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.seen: list[RecordedRequest] = []
        self._server = _Server(self)
        self._server.socket = tls.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, owner: RecordingApi) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        given = self.rfile.read(int(self.headers.get("content-length", "0")))
        self.server.owner.seen.append(
            RecordedRequest(self.path, self.headers.get("authorization", ""), given)
        )
        body = b"hello from outside\n"
        if self.path.startswith("/repeat/"):
            body = f"you sent {self.headers.get('authorization', 'nothing')}\n".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    @override
    def log_message(self, *_: object) -> None:
        """Nothing."""
