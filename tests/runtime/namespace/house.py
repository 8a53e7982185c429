r"""A proxy that runs, a stand-in for somebody's API, and a runtime of namespaces between them.

with House(tmp_path) as house:
box = house.box("one")
assert box.get("/x").stdout == b"hello from outside\n"
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from egress.ca import public_roots
from egress.runtime.dressing import kitted
from egress.runtime.gateway import ProxyGateway
from egress.runtime.namespace.runtime import NamespaceRuntime
from egress.runtime.spec import Command, ExecResult, Spec
from tests.cli.command import put
from tests.proxy.lab.certs import Certificates
from tests.proxy.served import Served
from tests.runtime.standin import StandIn

NAME: Final = "api.example.test"
SECRET: Final = "sesame-open-sesame-42"
PYTHON: Final = "/usr/bin/python3"
"""That of the machine: sandboxes see no other."""

certs = Certificates()


class House:
    """All of it, from `with` to its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            self.upstream = parts.enter_context(StandIn(certs.good(NAME)))
            self.served = parts.enter_context(self._proxy())
            self.home = self.served.runtime / "sandboxes"
            self.runtime = self.open_runtime()
            parts.callback(self._close_runtime)
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def _close_runtime(self) -> None:
        # A test may have put another one in its place.
        self.runtime.close()

    def open_runtime(self) -> NamespaceRuntime:
        return NamespaceRuntime(
            ProxyGateway(self.served.runtime),
            self.home,
            kitted(public_roots()),
            guarded=(self.served.runtime, self.served.state),
        )

    def _proxy(self) -> Served:
        port = self.upstream.port
        secret = put(self._folder / "secret", SECRET)
        rules = f"""\
version: 1
secrets:
  tracker: {{from: "file:{secret}", hosts: ["{NAME}:{port}"]}}
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow: all
    inject: [{{bearer: tracker}}]
"""
        ca = certs.write_ca(self._folder / "upstream-ca.pem")
        arguments = [
            "--handover",
            "--upstream-ca",
            str(ca),
            "--resolve",
            f"{NAME}=127.0.0.1",
            "--drain",
            "1s",
        ]
        return Served(self._folder, rules, arguments)

    def spec(self, name: str, **values: object) -> Spec:
        wanted: dict[str, object] = {"image": "host", "ports": (self.upstream.port,), **values}
        return Spec(name=name, **wanted)  # type: ignore[arg-type]

    def box(self, name: str, **values: object) -> Box:
        """A sandbox that runs."""
        self.runtime.create(self.spec(name, **values))
        self.runtime.start(name)
        return Box(self, name)


class Box:
    """One sandbox, and what tests do in it."""

    def __init__(self, house: House, name: str) -> None:
        self.house = house
        self.name = name

    def run(self, *words: str, **values: object) -> ExecResult:
        return self.house.runtime.exec(self.name, Command(argv=words, **values))  # type: ignore[arg-type]

    def sh(self, script: str, *words: str, **values: object) -> ExecResult:
        return self.run("/bin/sh", "-c", script, "sh", *words, **values)

    def python(self, program: str, *words: str, **values: object) -> ExecResult:
        return self.run(PYTHON, "-c", program, *words, **values)

    def get(self, path: str, *options: str) -> ExecResult:
        """Ask the stand-in, as a client does that knows nothing of any proxy or credential."""
        url = f"https://{NAME}:{self.house.upstream.port}{path}"
        return self.run("curl", "-sS", "--max-time", "20", *options, url)
