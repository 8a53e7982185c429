"""A running `egress up` with a rule file, an upstream and a port, and requests of both kinds of clients."""

from __future__ import annotations

import http.client
import json
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from egress import open_remote
from egress.cli.stand_in_api import NAME, StandInApi
from egress.fleet.remote import RemoteRuntime
from tests.api_server.lab import Answer, RawConnection
from tests.cli.command import Outcome, egress, put

SECRET: Final = "canary-sesame-4f2a9c1e-7b3d"
OTHER_SECRET: Final = "canary-poppy-9d1e0f77-55aa"
TIMEOUT: Final = 100
RULES: Final = """\
version: 1
secrets:
  tracker: {{from: "env:TRACKER_TOKEN", hosts: ["{name}:{port}"]}}
  missing: {{from: "file:{folder}/no-such-file", hosts: ["{name}:{port}"]}}
hosts:
  {name}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow: [{{id: read, methods: [GET], paths: ["/v1/**"]}}]
    deny: [{{id: no-keys, paths: ["/v1/keys"]}}]
    inject: [{{bearer: tracker}}]
  private.example.com: {{}}
  closed.example.com: {{allow: []}}
profiles:
  default: {{hosts: [{name}, closed.example.com]}}
  wide: {{hosts: [{name}, private.example.com]}}
delegate:
  - id: notes
    to: {{sandboxes: ["agent-*"]}}
    ttl: 10m
    hosts: [{name}]
    ports: [{port}]
    methods: [POST]
    paths: ["/v1/notes/**"]
  - {{id: stop, to: {{sandboxes: ["*"]}}, ttl: 1d, may: [deny], hosts: ["**.example.com"]}}
  - {{id: shut, to: {{sandboxes: [other]}}, ttl: 1m, may: [allow], hosts: [closed.example.com]}}
  - {{id: promote, to: {{sandboxes: [agent-2]}}, ttl: 1h, profiles: [wide]}}
"""


HANDLERS: Final = """\
from egress.handlers import Allow, Answer, Deny, handler

@handler
def block(request, context):
    return Deny("blocked")

@handler
def teapot(request, context):
    return Answer(int(context.params.get("status", 418)), context.sandbox)
"""


@dataclass(slots=True)
class ApiEntrance:
    """One of the two ways to the API."""

    folder: Path
    port: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    def connection(self) -> http.client.HTTPConnection:
        if self.port:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        connection = RawConnection(str(self.folder / "run" / "sandboxes.sock"))
        connection.connect()
        connection.sock.settimeout(TIMEOUT)
        return connection

    def ask(self, method: str, target: str, body: object = None, **headers: str) -> Answer:
        """Make one call; a body that is not bytes is sent as JSON."""
        data = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
        with closing(self.connection()) as connection:
            connection.request(method, f"/v1/{target}", data, {**self.headers, **headers})
            response = connection.getresponse()
            text = response.read()
            is_json = text and response.headers.get("content-type") == "application/json"
            return Answer(response.status, json.loads(text) if is_json else text, response.headers)

    def events(self, method: str, target: str, body: object = None, most: int = 100) -> list[tuple[str, Any]]:
        """Make one call whose answer is events; return up to `most` of them."""
        data = None if body is None else json.dumps(body).encode()
        found: list[tuple[str, Any]] = []
        with closing(self.connection()) as connection:
            connection.request(method, f"/v1/{target}", data, {**self.headers, "Accept": "text/event-stream"})
            response = connection.getresponse()
            kind = response.headers.get("content-type", "")
            assert kind.startswith("text/event-stream"), (response.status, response.read())
            name = ""
            while len(found) < most and (line := response.readline()):
                if line.startswith(b"event: "):
                    name = line[7:].decode().strip()
                elif line.startswith(b"data: "):
                    found.append((name, json.loads(line[6:])))
        return found


@dataclass(slots=True)
class OperatorLab:
    """The running process, as its operator, and as a client of its port."""

    folder: Path
    upstream: StandInApi
    owner: ApiEntrance
    client: ApiEntrance
    token: str

    @property
    def url(self) -> str:
        """The upstream, as a sandbox names it."""
        return f"https://{NAME}:{self.upstream.port}"

    def egress(self, *words: str) -> Outcome:
        return egress(*words, cwd=self.folder, env=_environment(self.folder, self.upstream), timeout=TIMEOUT)

    def remote(self) -> RemoteRuntime:
        return open_remote(f"http://127.0.0.1:{self.client.port}", token=self.token)

    def status(self, sandbox: str, path: str, *options: str) -> str:
        """The status that a real request from a sandbox gets."""
        words = ["curl", "-s", "-m", "30", "-o", "/dev/null", "-w", "%{http_code}", *options]
        made = self.owner.ask("POST", f"sandboxes/{sandbox}/exec", {"argv": [*words, f"{self.url}{path}"]})
        said: str = made.body["stdout"]
        return said

    def write_rules(self, extra: str = "") -> Path:
        text = RULES.format(name=NAME, port=self.upstream.port, folder=self.folder)
        return put(self.folder / "hosts.yaml", text + extra)


def _environment(folder: Path, upstream: StandInApi) -> dict[str, str]:
    return {
        "EGRESS_RUNTIME_DIR": str(folder / "run"),
        "EGRESS_STATE_DIR": str(folder / "state"),
        "EGRESS_UPSTREAM_CA": str(folder / "upstream.pem"),
        "EGRESS_HANDLERS": str(folder / "handlers.py"),
        "EGRESS_RESOLVE": f"{NAME}=127.0.0.1",
        "TRACKER_TOKEN": SECRET,
    }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@contextmanager
def operator_lab(*sandboxes: str) -> Iterator[OperatorLab]:
    """Start all of it, with these sandboxes."""
    with tempfile.TemporaryDirectory(prefix="egress-") as name, StandInApi() as upstream:
        folder, port = Path(name), _free_port()
        put(folder / "upstream.pem", upstream.certificate)
        put(folder / "handlers.py", HANDLERS)
        lab = OperatorLab(folder, upstream, ApiEntrance(folder), ApiEntrance(folder, port), "")
        lab.write_rules()
        up = lab.egress(
            *("up", "--rules", "hosts.yaml", "--runtime", "namespace", "--api-listen", f"127.0.0.1:{port}")
        )
        try:
            assert up.status == 0, up
            lab.token = (folder / "state" / "api.token").read_text().strip()
            lab.client.headers["Authorization"] = f"Bearer {lab.token}"
            for sandbox in sandboxes:
                made = lab.owner.ask("PUT", f"sandboxes/{sandbox}", {})
                assert made.status == 200, made.body
            yield lab
        finally:
            lab.egress("down")
