"""A port of the API over sandboxes in memory, plain or with TLS, and requests of every kind to it."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from egress.api_server.tcp_server import ApiPort, ApiPortSettings
from egress.proxy.setting_values import ListenAddress
from tests.fleet.memory_fleet import ManualClock, MemoryFleet, PortMemoryRuntime, spec

TOKEN: Final = "canary-Token_0123456789-0123456789-abcdef"


@dataclass(frozen=True)
class PortLab:
    estate: MemoryFleet
    port: ApiPort
    clock: ManualClock

    @property
    def at(self) -> ListenAddress:
        return self.port.at

    @property
    def host(self) -> str:
        return str(self.port.at)

    def running(self, name: str) -> None:
        """Make a sandbox that takes commands."""
        self.estate.fleet.create(spec(name))
        self.estate.fleet.start(name)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Make one call, with exactly these headers."""
        connection = http.client.HTTPConnection(self.at.host, self.at.port, timeout=30)
        data = b"" if body is None else json.dumps(body).encode()
        with closing(connection):
            connection.putrequest(method, path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            if data:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None

    def send(self, text: str) -> bytes:
        """Send bytes, end the sending side, and return everything that is answered."""
        with socket.create_connection((self.at.host, self.at.port), 30) as sock:
            sock.sendall(text.encode())
            sock.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: received(sock), b""))


def received(sock: socket.socket) -> bytes:
    """The next bytes; none at the end, however the server came to it."""
    try:
        return sock.recv(65536)
    except ConnectionResetError:
        return b""


def token_file(folder: Path, text: str = TOKEN) -> Path:
    file = folder / "token"
    file.touch(0o600)
    file.write_text(f"{text}\n")
    return file


def port_settings(
    folder: Path,
    host: str = "127.0.0.1",
    *,
    names: tuple[str, ...] = (),
    certificate: Path | None = None,
    key: Path | None = None,
) -> ApiPortSettings:
    return ApiPortSettings(
        at=ListenAddress(host, 0),
        token_file=token_file(folder),
        is_token_named=True,
        names=names,
        certificate=certificate,
        key=key,
    )


@contextmanager
def port_lab(folder: Path, certificate: Path | None = None, key: Path | None = None) -> Iterator[PortLab]:
    estate = MemoryFleet(PortMemoryRuntime({}))
    clock = ManualClock()
    settings = port_settings(folder, names=("boxes.example.com",), certificate=certificate, key=key)
    with closing(ApiPort(settings)) as port:
        port.serve(estate.fleet, clock)
        yield PortLab(estate, port, clock)
    estate.fleet.close()
