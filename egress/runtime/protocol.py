"""`Runtime`: what every kind of sandbox can do, and what it needs of others to do it.

It is synchronous, and may be used by several threads at a time. Whatever is under way in a sandbox settles
when the sandbox ends: with what came of it, or with `SandboxDiedError`. Nothing is left of a sandbox after
`remove`, and nothing of any after `close`.

Names are unique within a proxy. Everything raises an error of `egress.runtime.errors`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from egress.runtime.proxy_client import Admission, PlantedCanary
from egress.runtime.spec import NO_VALUES, Command, Event, ExecResult, Info, Spec, Terminal, Values

OutputCallback = Callable[[bytes], object]
"""Told each piece of output as it comes, by the thread that reads. It must not wait for the same command."""


@dataclass(frozen=True, slots=True)
class Output:
    """Who is told of output while a command runs."""

    stdout: OutputCallback | None = None
    stderr: OutputCallback | None = None


NO_OUTPUT = Output()


@dataclass(frozen=True, slots=True)
class Provisions:
    """What a sandbox is to hold so that its programs trust the proxy and find it; see `egress.runtime.kit`.

    It exists before the first process does.
    """

    folder: str = "/etc/egress"
    """Where all the files are, and nothing else."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """By path in the sandbox; none of them can be written there."""
    overmounts: Mapping[str, str] = field(default_factory=dict)
    """Which of the files stands at another path too, by that path."""
    variables: Values = NO_VALUES
    planted: tuple[PlantedCanary, ...] = ()
    """Files that the sandbox has for its own, to be written or taken away.

    See `egress.runtime.canary_planting`.
    """


@dataclass(frozen=True, slots=True)
class ProxyEndpoint:
    """Where the sandbox finds the proxy."""

    host: str
    port: int = 3128


Provisioner = Callable[[Admission, ProxyEndpoint], Provisions]
"""Makes the outfit of a sandbox. Called again when the proxy has returned: its authority is a new one
then."""


def provision_minimal(_admission: Admission, entrance: ProxyEndpoint) -> Provisions:
    """The least that works: the variables of a proxy, and no authority."""
    url = f"http://{entrance.host}:{entrance.port}"
    return Provisions(
        variables=dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), url)
    )


class RuntimeProcess(Protocol):
    """A command that runs. Its output is read all the time, whether anybody waits or not."""

    def write(self, data: bytes) -> None:
        """Give it input; returns when it has been taken. Without effect once it has ended."""

    def close_input(self) -> None:
        """Tell it that there is no more input."""

    def resize(self, terminal: Terminal) -> None:
        """Change the size of its terminal."""

    def kill(self, grace: float = 2.0) -> None:
        """End its whole process group: politely, then not. Returns when it is on its way."""

    def wait(self, timeout: float | None = None) -> ExecResult:
        """Return what came of it. Raises `TimeoutError` when it has not ended by then."""


class Runtime(Protocol):
    """Sandboxes of one kind, behind one proxy."""

    def create(self, spec: Spec) -> Info:
        """Make a sandbox, whole but for its processes. Where that fails nothing is left of it."""

    def start(self, name: str) -> Info:
        """Make it ready for commands. Nothing happens where it is."""

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> RuntimeProcess:
        """Begin a command."""

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        """Run a command to its end. Any status is a result; see `ExecResult.check`."""

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        """Let these lead to the proxy as well: the rules name them by now. Those that do already go on."""

    def dial(self, name: str, port: int) -> socket.socket:
        """A connection to a TCP port on which something in the sandbox listens, without a timeout.

        Raises `PortClosedError` where nothing does. What listens on the sandbox's loopback alone is not found
        by every runtime: programs that are to be dialled listen on all addresses.
        """

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        """Lay the files of a tar archive down in a folder, as the user of the sandbox."""

    def get(self, name: str, path: str) -> AbstractContextManager[BinaryIO]:
        """A tar archive of a file, or of what a folder holds. It holds nothing that leads out of itself."""

    def pause(self, name: str) -> None:
        """Freeze all of its processes. Nothing happens where they are."""

    def resume(self, name: str) -> None:
        """Let them go on."""

    def stop(self, name: str) -> None:
        """End its processes. It can be started again, and finds what it has written.

        Not what lies in memory: a disk that is bounded is empty at every start.
        """

    def remove(self, name: str) -> None:
        """Take it away, with all that it has written. Nothing happens where it is not."""

    def prepare(self, spec: Spec, count: int) -> None:
        """Keep so many sandboxes ready that differ from this one in name, profile, env and labels alone.

        `create` takes one of them where it can, each is used once, and others are made in their place. 0 ends
        it. Returns before they are ready. A runtime that is fast without may do nothing. Raises `SpecError`
        for more than it keeps, and `UnsupportedError` for one that cannot be made ahead.
        """

    def info(self, name: str) -> Info:
        """How it is."""

    def list(self, labels: Values = NO_VALUES) -> tuple[Info, ...]:
        """Those with all of these labels, by name."""

    def events(self) -> AbstractContextManager[Iterator[Event]]:
        """What happens to sandboxes from now on. Ends with its context, or the runtime."""

    def close(self) -> None:
        """Remove all sandboxes."""
