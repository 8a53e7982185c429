"""Fleets of sandboxes in memory, in this process and over a socket, for tests to look at.

Nothing here waits for time: whoever is to be told of it moves the clock.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from egress.api_server.server import ApiServer
from egress.fleet import Fleet, RemoteRuntime
from egress.fleet.protocol import FleetInfo
from egress.runtime.errors import PortClosedError
from egress.runtime.fake import FakeRuntime, Program
from egress.runtime.spec import Spec


class PortMemoryRuntime(FakeRuntime):
    """Sandboxes in memory, whose ports are wherever a test says that they are."""

    def __init__(self, programs: dict[str, Program] | None = None) -> None:
        super().__init__(programs=programs, images={"any"})
        self.ports: dict[tuple[str, int], tuple[str, int]] = {}
        self.prepared: list[tuple[str, int]] = []

    def dial(self, name: str, port: int) -> socket.socket:
        self.info(name)
        if (name, port) not in self.ports:
            raise PortClosedError(f"nothing listens on port {port} of the sandbox {name}", "start it first")
        return socket.create_connection(self.ports[name, port])

    def prepare(self, spec: Spec, count: int) -> None:
        self.prepared.append((spec.image, count))


@dataclass(slots=True)
class ManualClock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class MemoryFleet:
    """A fleet, its clock, and what is below it."""

    runtime: PortMemoryRuntime = field(default_factory=PortMemoryRuntime)
    clock: ManualClock = field(default_factory=ManualClock)
    fleet: Fleet = field(init=False)

    def __post_init__(self) -> None:
        self.fleet = Fleet(
            self.runtime, about=FleetInfo(kind="fake", why="a test"), clock=self.clock, tick=None
        )


def spec(name: str = "one", **values: object) -> Spec:
    return Spec(name=name, image="any", **values)  # type: ignore[arg-type]


@contextmanager
def short_folder() -> Iterator[Path]:
    """One whose sockets have short paths; those of tests are long."""
    folder = Path(tempfile.mkdtemp(prefix="egress-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def served(fleet: Fleet) -> Iterator[RemoteRuntime]:
    """The fleet over a socket."""
    with short_folder() as folder:
        service = ApiServer(fleet, folder)
        try:
            with RemoteRuntime(service.path) as remote:
                yield remote
        finally:
            service.close()
