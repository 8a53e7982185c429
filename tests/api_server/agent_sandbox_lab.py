"""A port of the API over sandboxes of real shells and real files, and requests of agent-sandbox's client."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from egress.api_server.tcp_server import ApiPort
from egress.fleet import Fleet
from egress.fleet.lifetime import NO_TIME_LIMIT, SandboxLifetime
from egress.fleet.protocol import FleetInfo
from tests.api_server.port_lab import TOKEN, port_settings
from tests.fleet.memory_fleet import spec
from tests.unit.sandbox.local_runtime import LocalRuntime

RIGHT: Final = f"Bearer {TOKEN}"
BOUNDARY: Final = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
FORM: Final = f"multipart/form-data; boundary={BOUNDARY}"


@dataclass(frozen=True, slots=True)
class RouterLab:
    """The port, in the place of the router that the client expects."""

    fleet: Fleet
    port: ApiPort
    folder: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "one" / "workspace"

    def running(self, name: str, terms: SandboxLifetime = NO_TIME_LIMIT, **values: object) -> None:
        self.fleet.create(spec(name, **values), terms)
        self.fleet.start(name)

    def raw(
        self,
        method: str,
        target: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Iterable[tuple[str, str]] = (),
    ) -> tuple[int, bytes]:
        """Make one call with exactly these headers, beside the token."""
        with closing(http.client.HTTPConnection(self.port.at.host, self.port.at.port, timeout=60)) as sent:
            sent.putrequest(method, target)
            sent.putheader("Authorization", RIGHT)
            for name, value in headers:
                sent.putheader(name, value)
            if isinstance(body, bytes):
                sent.putheader("Content-Length", str(len(body)))
            elif body is not None:
                sent.putheader("Transfer-Encoding", "chunked")
            sent.endheaders(body, encode_chunked=not isinstance(body, bytes))
            response = sent.getresponse()
            return response.status, response.read()

    def ask(
        self, method: str, target: str, body: bytes | Iterable[bytes] | None = None, **headers: str
    ) -> tuple[int, Any]:
        """Make one call to the sandbox `one`; headers are named with underscores."""
        usual = {"X-Sandbox-ID": "one", "X-Sandbox-Namespace": "default", "X-Sandbox-Port": "8888"}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        status, answer = self.raw(method, target, body, {**usual, **given}.items())
        return status, json.loads(answer) if answer.startswith((b"{", b"[")) else answer

    def execute(self, command: str, **fields: object) -> tuple[int, Any]:
        return self.ask("POST", "/execute", json.dumps({"command": command, **fields}).encode())

    def download_size(self, name: str) -> int:
        """Read a file piece by piece, and return its size."""
        with closing(http.client.HTTPConnection(self.port.at.host, self.port.at.port, timeout=60)) as sent:
            sent.request("GET", f"/download/{name}", headers={"Authorization": RIGHT, "X-Sandbox-ID": "one"})
            response = sent.getresponse()
            return sum(map(len, iter(lambda: response.read(65536), b"")))

    def upload(self, name: str, content: bytes) -> tuple[int, Any]:
        return self.ask("POST", "/upload", form(name, content), Content_Type=FORM)


def form(name: str, content: bytes) -> bytes:
    """A form as the client sends it."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


@contextmanager
def router_lab(folder: Path) -> Iterator[RouterLab]:
    fleet = Fleet(LocalRuntime(folder / "boxes"), about=FleetInfo(kind="local", image="any"), tick=None)
    with closing(ApiPort(port_settings(folder))) as port:
        port.serve(fleet)
        lab = RouterLab(fleet, port, folder / "boxes")
        lab.running("one")
        yield lab
    fleet.close()
