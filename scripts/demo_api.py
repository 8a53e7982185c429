"""A stand-in for a real API, on loopback and with a certificate authority of its own.

It does what careless APIs do: it repeats the credential it was sent. What it received can be read.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from egress.ca.authority import Authority

NAME = "api.example.com"


class DemoApi:
    """The API, in a thread."""

    def __init__(self, folder: Path) -> None:
        now = int(time.time())
        authority = Authority.create("stand-in", now)
        self.ca = folder / "stand-in-ca.pem"
        self.ca.write_bytes(authority.certificate_pem)
        leaf = authority.leaf(NAME, now)
        chain = folder / "stand-in.pem"
        chain.touch(mode=0o600)
        key = leaf.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        chain.write_bytes(key + leaf.certificate_pem)
        self.received: list[str] = []
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                received.append(f"{self.requestline}\n{str(self.headers).rstrip()}")
                credential = self.headers.get("authorization", "")
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
                """Say nothing: the demo shows what was received."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
