"""A server on loopback that plays an API, and remembers the credentials it received.

Its authority is its own and ends with it; only the proxy of the trial trusts it.
"""

from __future__ import annotations

import ssl
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Self, override

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from egress.ca import Authority

HOST: Final = "api.doctor.test"
_BODY: Final = b"{}\n"
_MAX_REQUESTS: Final = 1000


class TrialUpstream:
    """Serves within its `with` block."""

    def __init__(self, folder: Path, now: int) -> None:
        """`folder` belongs to this user alone: the key is in it only until it is loaded."""
        authority = Authority.create("egress doctor", now)
        self.trusted = folder / "upstream-ca.pem"
        self.trusted.write_bytes(authority.certificate_pem)
        self._seen: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        self._server = _Server(self)
        tls = _tls(authority, folder / "upstream.pem", now)
        # Handshakes run in the handler threads, so that a stalled client does not block the server.
        self._server.socket = tls.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="egress-upstream", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def seen(self, name: str) -> frozenset[str]:
        """Return the credentials received for this page; empty if it was not requested."""
        with self._lock:
            return frozenset(self._seen.get(name, ()))

    def note(self, path: str, credential: str) -> None:
        name = path.removeprefix("/").partition("/")[0].partition("?")[0].removesuffix(".git")
        with self._lock:
            # Bounded: the programs of an image are untrusted, and could ask for endless pages.
            if len(self._seen) < _MAX_REQUESTS:
                self._seen.setdefault(name, set()).add(credential)


def _tls(authority: Authority, place: Path, now: int) -> ssl.SSLContext:
    leaf = authority.leaf(HOST, now)
    key = leaf.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    # Python's ssl loads a key only from a file, so it exists for a moment, closed to others.
    place.touch(0o600)
    place.write_bytes(leaf.certificate_pem + key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(place)
    place.unlink()
    return tls


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, owner: TrialUpstream) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that go away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self.server.owner.note(self.path, self.headers.get("authorization", ""))
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(_BODY)))
        self.end_headers()
        self.wfile.write(_BODY)

    @override
    def log_message(self, *_: object) -> None:
        """Log nothing."""
