r"""A proxy that runs, a stand-in for somebody's API, and a runtime of containers between them.

with House(tmp_path) as house:
box = house.box("one")
assert box.get("/x").stdout == b"hello from outside\n"
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from egress.ca import public_roots
from egress.runtime.docker import local_image
from egress.runtime.docker.engine import Engine
from egress.runtime.docker.runtime import DockerRuntime
from egress.runtime.dressing import kitted
from egress.runtime.errors import ImageMissingError
from egress.runtime.gateway import ProxyGateway
from egress.runtime.spec import Command, ExecResult, Spec
from tests.cli.command import put
from tests.proxy.lab.certs import Certificates
from tests.proxy.served import Served
from tests.runtime.standin import StandIn

NAME: Final = "api.example.test"
SECRET: Final = "sesame-open-sesame-42"
PROGRAMS: Final = (
    *("sh", "cat", "chmod", "curl", "cut", "date", "dd", "echo", "env", "false", "find", "getent", "grep"),
    *("head", "id", "ln", "ls", "mkdir", "mkfifo", "mount", "mv", "pwd", "readlink", "rm", "setsid", "sleep"),
    *("sort", "stat", "stty", "tar", "test", "touch", "tr", "true", "tty", "uname", "unshare", "wc"),
)

certs = Certificates()


def image(engine: Engine) -> str:
    """A small system made of what this machine has; made once per content."""
    with local_image.spooled(local_image.for_people(PROGRAMS)) as (archive, digest):
        name = f"egress-test:{digest[:16]}"
        try:
            engine.image_id(name)
        except ImageMissingError:
            engine.import_image(archive, "egress-test", digest[:16])
    return name


class House:
    """All of it, from `with` to its end."""

    def __init__(self, folder: Path, image: str, *, ready: int = 0) -> None:
        self._folder = folder
        self.image = image
        self._ready = ready
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

    def open_runtime(self) -> DockerRuntime:
        return DockerRuntime(
            ProxyGateway(self.served.runtime),
            self.home,
            kitted(public_roots()),
            ready=self._ready,
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
        return Spec(name=name, image=self.image, ports=(self.upstream.port,), **values)  # type: ignore[arg-type]

    def keep_networks(self, count: int) -> None:
        """Have so many networks with a door ready, from now on."""
        self.runtime._cells.shelf.want(count)

    def until_ready(self) -> None:
        """Wait until all is there that is made ahead."""
        assert self.runtime._cells.shelf.until_ready()
        assert self.runtime._pool.until_ready()

    def container(self, name: str) -> str:
        """The id of a sandbox's container."""
        return self.runtime._boxes[name].container

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

    def get(self, path: str, *options: str) -> ExecResult:
        """Ask the stand-in, as a client does that knows nothing of any proxy or credential."""
        url = f"https://{NAME}:{self.house.upstream.port}{path}"
        return self.run("curl", "-sS", "--max-time", "20", *options, url)
