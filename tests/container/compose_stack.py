"""The compose file as it is shipped, running: the proxy, a workload, and somebody's API behind the proxy.

Only what has to differ here differs: the addresses, so that several can run at once, the rules, and the
workload, which waits for what a test does in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final, Self

from egress.runtime.docker.images import recipes
from tests.proxy.lab.certificates import Certificates

NAME: Final = "api.example.test"
NEIGHBOUR: Final = "neighbour.example.test"
"""The same API, under a name whose entry opens no private address."""
SECRET: Final = "sesame-open-sesame-43"
EXPECTED: Final = hashlib.sha256(f"Bearer {SECRET}".encode()).hexdigest()
"""What the API answers: a digest of the credential, because the proxy would mask the credential itself."""
_WRITTEN: Final = "10.92.0."
_COMPOSE_TIMEOUT: Final = 60
_API: Final = """\
import hashlib, http.server, ssl

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        said = hashlib.sha256(self.headers.get("authorization", "").encode()).hexdigest().encode()
        self.send_response(200)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/api/leaf.pem", "/api/leaf.key")
server = http.server.ThreadingHTTPServer(("0.0.0.0", 443), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
_RULES: Final = """\
version: 1
secrets:
  token: {{from: "file:/run/secrets/token", hosts: [{name}]}}
hosts:
  {name}:
    addresses: [{outside}0/29]
    allow: [{{ id: read, methods: [GET] }}]
    inject: [{{bearer: token}}]
  {neighbour}: {{allow: all}}
"""
_OVERRIDE: Final = """\
services:
  proxy:
    stop_grace_period: 3s
    environment:
      EGRESS_UPSTREAM_CA: /api/ca.pem
      EGRESS_DRAIN: 1s
    volumes: [./api:/api:ro]
  workload:
    command: [sleep, infinity]
    init: true
    stop_grace_period: 1s
  api:
    image: {image}
    command: [python3, /api/serve.py]
    user: "0"
    init: true
    stop_grace_period: 1s
    volumes: [./api:/api:ro]
    networks:
      outside: {{ ipv4_address: {outside}3, aliases: [{name}, {neighbour}] }}
networks:
  outside:
    ipam:
      config: [{{ subnet: {outside}0/29 }}]
"""


class ComposeStack:
    """All of it, from `with` to its end."""

    def __init__(self, folder: Path, proxy: str, workload: str) -> None:
        self.folder = folder / "container"
        # Of this process alone: the numbers of two that run at once differ.
        number = os.getpid() % 250 + 2
        self.project = f"egress-test-{os.getpid()}"
        self.inside = f"10.92.{number}."
        self.outside = f"10.93.{number}."
        self._environ = {
            "PATH": os.environ["PATH"],  # noqa: TID251
            "DOCKER_CONFIG": "/nonexistent",
            "EGRESS_PROXY_IMAGE": proxy,
            "EGRESS_WORKLOAD_IMAGE": workload,
            "EGRESS_TOKEN_FILE": str(self.folder / "token"),
        }
        self._lay_out(workload)

    def _lay_out(self, workload: str) -> None:
        shutil.copytree(recipes.folder(), self.folder)
        for name in ("compose.yaml", "resolv.conf"):
            file = self.folder / name
            file.write_text(file.read_text("utf-8").replace(_WRITTEN, self.inside), "utf-8")
        words = {"name": NAME, "neighbour": NEIGHBOUR, "outside": self.outside, "image": workload}
        (self.folder / "override.yaml").write_text(_OVERRIDE.format_map(words), "utf-8")
        (self.folder / "rules/hosts.yaml").write_text(_RULES.format_map(words), "utf-8")
        (self.folder / "token").write_text(SECRET, "utf-8")
        api = self.folder / "api"
        api.mkdir()
        certs = Certificates()
        certs.write_ca(api / "ca.pem")
        certs.write_leaf(api, NAME, NEIGHBOUR)
        (api / "serve.py").write_text(_API, "utf-8")

    def __enter__(self) -> Self:
        try:
            self.compose("up", "--detach", "--no-build")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.compose("down", "--volumes", "--timeout", "3")

    def compose(self, *words: str) -> str:
        command = ["docker-compose", "--project-name", self.project]
        files = ["--file", "compose.yaml", "--file", "override.yaml"]
        return self._run([*command, *files, *words])

    def engine(self, *words: str) -> str:
        return self._run(["docker", *words])

    def log(self, service: str) -> list[str]:
        """The lines of both standard streams."""
        words = ["docker", "logs", self.container(service)]
        out, err = subprocess.PIPE, subprocess.STDOUT
        done = subprocess.run(words, env=self._environ, text=True, check=True, stdout=out, stderr=err)
        return done.stdout.splitlines()

    def container(self, service: str) -> str:
        return f"{self.project}_{service}_1"

    def inside_of(
        self, service: str, *words: str, user: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A command in a container; it may fail."""
        options = ["--user", user] if user else []
        command = ["docker", "exec", *options, self.container(service), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=self._environ)

    def curl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Ask from the workload, as a client does that knows of no credential."""
        return self.inside_of("workload", "curl", "-sS", "--max-time", "20", *words)

    def state(self, service: str) -> dict[str, object]:
        (found,) = json.loads(self.engine("inspect", self.container(service)))
        assert isinstance(found, dict)
        return found

    def wait_until_well(self) -> None:
        end = time.monotonic() + _COMPOSE_TIMEOUT
        while (said := self.health()) != "healthy":
            assert time.monotonic() < end, said
            time.sleep(0.2)

    def health(self) -> str:
        return self.engine("inspect", "--format", "{{.State.Health.Status}}", self.container("proxy")).strip()

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self._environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
