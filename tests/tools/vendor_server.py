"""Vendors of APIs on this machine, under their real names: TLS, one server for all, every call is kept.

    with VendorServer(certs, {"api.example.com": vendor}) as server:
        ... the proxy is told that api.example.com is at server.address ...
        server.calls

A vendor is whatever answers a call. The server listens on port 443 of a loopback address of its own, because
tools and presets know no other port.
"""

from __future__ import annotations

import json
import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self, override
from urllib.parse import parse_qs, urlsplit

from tests.proxy.lab.certificates import Certificates

PORT: Final = 443


@dataclass(slots=True)
class VendorCall:
    """One request at a vendor, and the means to answer it, once."""

    host: str
    method: str
    target: str
    fields: tuple[tuple[str, str], ...]
    body: bytes
    _handler: _Handler = field(repr=False)
    status: int = 0
    """What it was answered; 0 before."""

    # Asked

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    def parameter(self, name: str) -> str:
        """The first value of a query parameter; empty without one."""
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True).get(name, [""])[0]

    def header(self, name: str) -> str:
        """All values of a header field; empty without one."""
        return ", ".join(value for key, value in self.fields if key == name)

    def json(self) -> Any:  # noqa: ANN401 - whatever a tool sends
        return json.loads(self.body or b"null")

    # Answered

    def reply(
        self,
        body: bytes,
        kind: str = "application/json",
        status: int = 200,
        more: Mapping[str, str] | None = None,
    ) -> None:
        """Answer as a whole."""
        self._begin(status, {"content-type": kind, "content-length": str(len(body)), **(more or {})})
        if self.method != "HEAD":
            self._handler.wfile.write(body)

    def reply_json(self, value: object, status: int = 200, more: Mapping[str, str] | None = None) -> None:
        self.reply(json.dumps(value).encode(), status=status, more=more)

    def stream(self, parts: Iterable[bytes], kind: str = "text/event-stream") -> None:
        """Answer piece by piece; each one leaves before the next is made."""
        self._begin(200, {"content-type": kind, "transfer-encoding": "chunked"})
        for part in parts:
            self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self._handler.wfile.flush()
        self._handler.wfile.write(b"0\r\n\r\n")

    def _begin(self, status: int, fields: Mapping[str, str]) -> None:
        self.status = status
        self._handler.send_response(status)
        for name, value in fields.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()


type Vendor = Callable[[VendorCall], None]


def event(value: object, name: str = "") -> bytes:
    """One event of a stream."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


class VendorServer:
    """Serves from `with` to its end. A call for a name without a vendor is kept and answered 421."""

    def __init__(self, certs: Certificates, vendors: Mapping[str, Vendor]) -> None:
        self.vendors = dict(vendors)
        self.calls: list[VendorCall] = []
        self.mistakes: list[str] = []
        """What went wrong in a vendor itself; a test that has any fails."""
        self._tls = certs.good(*self.vendors)

    @property
    def address(self) -> str:
        return str(self._server.server_address[0])

    def __enter__(self) -> Self:
        self._server = _listening(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wrapped(self, connection: socket.socket) -> ssl.SSLSocket:
        return self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def answer(self, call: VendorCall) -> None:
        """Let the vendor of this name answer."""
        self.calls.append(call)
        vendor = self.vendors.get(call.host)
        if vendor is None:
            call.reply(b"no such vendor\n", "text/plain", 421)
            return
        try:
            vendor(call)
        except OSError:
            raise
        except Exception as mistake:  # noqa: BLE001 - shown by the test
            self.mistakes.append(f"{call.method} {call.host}{call.target}: {mistake!r}")
            if not call.status:
                call.reply(b"the stand-in is wrong\n", "text/plain", 500)


def may_listen() -> bool:
    """Whether this process may listen on the port that all tools call."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.255.255.1", PORT))
        except PermissionError:
            return False
        except OSError:
            return True
    return True


def _listening(owner: VendorServer) -> _Server:
    """On an address that nobody else here has: tests run side by side."""
    for _ in range(20):
        address = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(250)}.{secrets.randbelow(250) + 1}"
        try:
            return _Server(owner, address)
        except PermissionError:
            raise
        except OSError:
            continue
    raise RuntimeError("no loopback address is free")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, owner: VendorServer, address: str) -> None:
        self.owner = owner
        super().__init__((address, PORT), _Handler)

    @override
    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = self.socket.accept()
        return self.owner.wrapped(connection), peer

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        fields = tuple((name.lower(), value) for name, value in self.headers.items())
        host = (self.headers.get("host") or "").partition(":")[0]
        self.server.owner.answer(VendorCall(host, self.command, self.path, fields, self._body(), self))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("transfer-encoding") or ""):
            return self.rfile.read(int(self.headers.get("content-length") or "0"))
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        # The end of the trailers, of which there are none.
        self.rfile.readline()
        return body

    @override
    def log_message(self, *_: object) -> None:
        """Nothing."""
