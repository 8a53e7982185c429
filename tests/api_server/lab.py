"""A server of the API over sandboxes in memory, and a client that says whatever a test wants."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, override

from egress.api.endpoint import UnixEndpoint
from egress.api.websocket_client import WebSocketClient
from egress.api_server.server import ApiServer
from egress.fleet import RemoteRuntime
from egress.runtime.fake import Program, ProgramCall
from egress.unix.stream_socket import connect
from tests.fleet.memory_fleet import MemoryFleet, PortMemoryRuntime, short_folder, spec


def shout(call: ProgramCall) -> None:
    call.write(b"x" * 500_000)
    call.complain(b"y" * 500_000)


def greet(call: ProgramCall) -> None:
    call.write("grün\n".encode())
    call.write(call.read())


class RawConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("egress")
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self._path)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any
    headers: http.client.HTTPMessage


def ask(
    server: ApiServer, method: str, target: str, body: object = None, headers: dict[str, str] | None = None
) -> Answer:
    """Make one call; a body that is not bytes is sent as JSON."""
    connection = RawConnection(str(server.path))
    data = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
    try:
        connection.request(method, target, data, headers or {})
        response = connection.getresponse()
        text = response.read()
        is_json = text and response.headers.get("content-type") == "application/json"
        return Answer(response.status, json.loads(text) if is_json else text, response.headers)
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class ApiLab:
    estate: MemoryFleet
    server: ApiServer
    asked_to_end: list[bool]
    streams: list[WebSocketClient] = field(default_factory=list)

    def ask(
        self, method: str, target: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Make one call."""
        return ask(self.server, method, target, body, headers)

    def connect(self) -> socket.socket:
        return connect(self.server.path, 30)

    def stream(self, target: str) -> WebSocketClient:
        """A WebSocket before its handshake."""
        self.streams.append(WebSocketClient(self.connect(), UnixEndpoint(self.server.path), target))
        return self.streams[-1]

    def running(self, name: str = "one") -> None:
        """Make a sandbox that takes commands."""
        self.estate.fleet.create(spec(name))
        self.estate.fleet.start(name)


@contextmanager
def api_lab(**programs: Program) -> Iterator[ApiLab]:
    estate = MemoryFleet(PortMemoryRuntime({"shout": shout, "greet": greet, **programs}))
    ended: list[bool] = []
    with short_folder() as folder:
        server = ApiServer(estate.fleet, folder, lambda: ended.append(True))
        lab = ApiLab(estate, server, ended)
        try:
            yield lab
        finally:
            for stream in lab.streams:
                stream.close()
            server.close()
            estate.fleet.close()


@contextmanager
def remote_of(lab: ApiLab) -> Iterator[RemoteRuntime]:
    with RemoteRuntime(lab.server.path) as remote:
        yield remote


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()
