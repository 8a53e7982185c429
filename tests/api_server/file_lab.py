"""A server of the API over sandboxes of real shells and real files."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import override
from urllib.parse import urlencode

from egress.api_server.server import ApiServer
from egress.fleet import Fleet
from egress.fleet.protocol import FleetInfo
from egress.runtime.protocol import NO_OUTPUT, Output
from egress.runtime.spec import Command
from egress.unix.stream_socket import connect
from tests.api_server.lab import Answer, ask
from tests.fleet.memory_fleet import short_folder, spec
from tests.unit.sandbox.local_runtime import LocalProcess, LocalRuntime


class CommandKeepingRuntime(LocalRuntime):
    """Keeps each command that was started, for a test that waits for its end."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.started: list[LocalProcess] = []

    @override
    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> LocalProcess:
        self.started.append(super().spawn(name, command, output))
        return self.started[-1]


@dataclass(frozen=True, slots=True)
class FileLab:
    server: ApiServer
    runtime: CommandKeepingRuntime
    workspace: Path

    def ask(
        self, method: str, call: str, body: object = None, headers: dict[str, str] | None = None, **query: str
    ) -> Answer:
        return ask(self.server, method, self.target(call, **query), body, headers)

    def target(self, call: str, **query: str) -> str:
        return f"/v1/sandboxes/one/{call}" + (f"?{urlencode(query)}" if query else "")

    def connect(self) -> socket.socket:
        return connect(self.server.path, 30)


@contextmanager
def file_lab(folder: Path) -> Iterator[FileLab]:
    runtime = CommandKeepingRuntime(folder)
    fleet = Fleet(runtime, about=FleetInfo(kind="local"), tick=None)
    with short_folder() as run_folder:
        server = ApiServer(fleet, run_folder)
        try:
            fleet.create(spec())
            fleet.start("one")
            yield FileLab(server, runtime, folder / "one" / "workspace")
        finally:
            server.close()
            fleet.close()
