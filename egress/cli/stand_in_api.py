"""A stand-in for a real API, on loopback and with a certificate authority of its own.

It does what careless APIs do: it repeats the credential it was sent.
"""

from __future__ import annotations

import json
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Self

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from egress.ca.authority import Authority

NAME: Final = "api.example.com"
_CLIENT_TIMEOUT: Final = 60.0
"""Seconds after which a client that says nothing is given up."""


def _say_nothing(_request: str, _credential: str) -> None:
    """Default: requests are only kept."""


class StandInApi:
    """The API, in a thread from `with` to its end."""

    def __init__(self, port: int = 0, told: Callable[[str, str], None] = _say_nothing) -> None:
        """Listen on a port of loopback; 0 lets the kernel choose. Raises `OSError`.

        `told` gets the request line and the credential of each request.
        """
        now = int(time.time())  # noqa: TID251 - certificates of a command begin now
        authority = Authority.create("stand-in", now)
        self.certificate = authority.certificate_pem.decode("ascii")
        """The certificate of its authority."""
        self.received: list[str] = []
        """The head of each request, with its credential."""
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self.received, told))
        # The handshake waits for the thread of its connection: a client that says nothing must not keep
        # all others, and the end of the server, waiting.
        self._server.socket = _tls(authority, now).wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.server_port

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _tls(authority: Authority, now: int) -> ssl.SSLContext:
    leaf = authority.leaf(NAME, now)
    key = leaf.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # OpenSSL reads the key from a file, which is gone again with the folder.
    with tempfile.TemporaryDirectory(prefix="egress-demo-") as folder:
        chain = Path(folder, "chain.pem")
        chain.touch(mode=0o600)
        chain.write_bytes(key + leaf.certificate_pem)
        context.load_cert_chain(chain)
    return context


def _handler(received: list[str], told: Callable[[str, str], None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _CLIENT_TIMEOUT

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            received.append(f"{self.requestline}\n{str(self.headers).rstrip()}")
            credential = self.headers.get("authorization", "")
            told(self.requestline, credential)
            # The body is not of interest, but the next request comes behind it.
            self.rfile.read(min(int(self.headers.get("content-length") or 0), 1024 * 1024))
            body = json.dumps({"login": "demo", "you_sent": credential}).encode() + b"\n"
            self.send_response(200 if credential else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def version_string(self) -> str:
            return "stand-in"

        def date_time_string(self, _: float | None = None) -> str:
            return "Mon, 01 Jan 2035 00:00:00 GMT"

        def log_message(self, *_: object) -> None:
            """Say nothing here: the caller is told of each request."""

    return Handler
