"""A git server that wants a credential, a proxy that has it, and sandboxes that do not."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Self

from egress.ca import public_roots
from egress.fleet import Fleet
from egress.fleet.protocol import FleetInfo
from egress.runtime.docker.runtime import DockerRuntime
from egress.runtime.namespace.runtime import NamespaceRuntime
from egress.runtime.provisioning import trust_kit_provisioner
from egress.runtime.proxy_client import ControlProxyClient
from tests.proxy.clients.scene import SECRET, certs, write_secret
from tests.proxy.lab.git import USER, GitUpstream, git_environment
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.serve_process import ServeProcess

GIT_TIMEOUT = 60
BASIC = "Basic " + base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
RULES = """\
version: 1
secrets:
  forge: {{from: "file:{secret}", hosts: ["{name}:{port}"]}}
hosts:
  {name}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: refs, methods: [GET], paths: ["/*.git/info/refs"], query: {{service: git-upload-pack}}}}
      - {{id: fetch, methods: [POST], paths: ["/*.git/git-upload-pack"]}}
    inject: [{{basic: {{user: {user}, secret: forge}}}}]
"""
"""Every repository may be read, and none be written."""


class GitServer:
    """The server, in a thread with a loop of its own."""

    def __init__(self, folder: Path) -> None:
        self.upstream = GitUpstream(certs.good(NAME), folder, SECRET)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(GIT_TIMEOUT)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        async with self.upstream:
            self._ready.set()
            await self._ended.wait()


class GitServerLab:
    """All of it, from `with` to its end."""

    def __init__(self, folder: Path, kind: Literal["namespace", "docker"] = "namespace") -> None:
        self._folder = folder
        self._kind = kind
        self._parts = ExitStack()

    def __enter__(self) -> Self:
        write_secret(self._folder)
        served = self._folder / "served"
        served.mkdir()
        with ExitStack() as parts:
            self.upstream = parts.enter_context(GitServer(served)).upstream
            self.proxy = parts.enter_context(self._proxy())
            guarded = (self.proxy.runtime, self.proxy.state)
            made = (DockerRuntime if self._kind == "docker" else NamespaceRuntime)(
                ControlProxyClient(self.proxy.runtime),
                self.proxy.runtime / "sandboxes",
                trust_kit_provisioner(public_roots()),
                guarded=guarded,
            )
            self.fleet = Fleet(made, about=FleetInfo(kind=self._kind), tick=None)
            parts.callback(self.fleet.close)
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def url(self, repository: str) -> str:
        return f"https://{NAME}:{self.upstream.port}/{repository}.git"

    def seed(self, repository: str) -> str:
        """Make a repository with one commit, past the proxy; returns the commit."""
        there, work = self.upstream.create(repository), self._folder / f"work-{repository}"
        self._git("init", "--quiet", "--initial-branch=main", str(work))
        (work / "README").write_text("hello\n", encoding="utf-8")
        self._git("-C", str(work), "add", "README")
        self._git("-C", str(work), "commit", "--quiet", "--message=first")
        self._git("-C", str(work), "push", "--quiet", str(there), "main")
        return self._git("-C", str(work), "rev-parse", "HEAD").strip()

    def _git(self, *words: str) -> str:
        around = git_environment(self._folder)
        done = subprocess.run(["git", *words], env=around, check=True, capture_output=True, text=True)
        return done.stdout

    def _proxy(self) -> ServeProcess:
        ca = certs.write_ca(self._folder / "upstream-ca.pem")
        arguments = (
            "--handover",
            "--upstream-ca",
            str(ca),
            "--resolve",
            f"{NAME}=127.0.0.1",
            "--drain",
            "1s",
        )
        rules = RULES.format(secret=self._folder / "secret", name=NAME, port=self.upstream.port, user=USER)
        return ServeProcess(self._folder, rules, arguments)
