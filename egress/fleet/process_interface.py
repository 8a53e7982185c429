"""Processes that any client finds again by their id: the interface, in this process and over the API.

The output of such a process has offsets, counted from its beginning, and its newest bytes are kept. A client
that comes back asks for output from the offset that it had reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol

from egress.fleet.http_probe import HttpProbe
from egress.runtime.spec import MIB, Command

OutputName = Literal["stdout", "stderr"]
ProcessState = Literal["running", "ended", "lost"]
"""`lost` is a process whose sandbox ended under it: it has no exit status."""

DEFAULT_KEPT_BYTES: Final = MIB
"""Bytes kept of each output: the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """A process, and whether it runs."""

    id: str
    sandbox: str
    argv: tuple[str, ...]
    started: datetime
    state: ProcessState
    exit_code: int | None = None
    timed_out: bool = False
    columns: int | None = None
    rows: int | None = None
    """The size of its terminal; None without a terminal."""


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """Bytes of an output."""

    offset: int
    """The offset of the first of them. Higher than the one asked for if those bytes are gone."""
    data: bytes
    first: int
    """The lowest offset that is kept."""

    @property
    def next(self) -> int:
        """The offset of what follows."""
        return self.offset + len(self.data)


class OutputFollower(Protocol):
    """Pieces of an output as they come. It ends with the process, or with `close` of any thread."""

    def __iter__(self) -> Iterator[OutputPiece]: ...

    def __next__(self) -> OutputPiece: ...

    def close(self) -> None:
        """Follow no more; a thread that waits for a piece gets the end."""


class TerminalViewer(Protocol):
    """A client at the terminal of a process. Its output ends with the process, or with `close`.

    Any number of viewers see the same, and all of them may type. The size is that of the last one that
    attached or resized.
    """

    def __iter__(self) -> Iterator[bytes]: ...

    def __next__(self) -> bytes:
        """The next output. The first piece shows the terminal as it is; so does one after a gap."""

    def write(self, data: bytes) -> None:
        """Type. Input that the program does not take in some seconds is dropped."""

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal, for all viewers."""

    def close(self) -> None:
        """Detach; the process goes on. A thread that waits for output gets the end."""


class TrackedProcess(Protocol):
    """A process that is found by its id."""

    @property
    def id(self) -> str: ...

    def status(self) -> ProcessStatus:
        """What it is, and whether it runs."""

    def read(self, stream: OutputName = "stdout", offset: int = 0) -> OutputPiece:
        """The kept output from an offset on. Raises `SpecError` for an offset that is not reached."""

    def follow(self, stream: OutputName = "stdout", offset: int = 0) -> OutputFollower:
        """The output from an offset on, as it comes. A gap shows in the offset of the piece after it."""

    def write(self, data: bytes) -> None:
        """Send input; returns when it was taken. Raises `SandboxStateError` if the input is closed."""

    def close_input(self) -> None:
        """Close the input."""

    def signal(self, name: str) -> None:
        """Send a signal to all of its processes."""

    def kill(self, grace: float = 2.0) -> None:
        """End the process group: SIGTERM, then SIGKILL after `grace`."""

    def wait(
        self,
        timeout: float | None = None,
        *,
        log: str = "",
        port: int | None = None,
        http: HttpProbe | None = None,
    ) -> ProcessStatus:
        """Wait for its end, a text in its output, a listener on a port, or an answer over HTTP.

        Raises `SandboxTimeoutError`, and `ProcessEndedError` if it ended before any of the others.
        """

    def attach(self, columns: int, rows: int) -> TerminalViewer:
        """Attach to its terminal, and give it this size.

        Raises `SandboxStateError` if it has no terminal.
        """

    def forget(self) -> None:
        """End it if it runs; from now on no client finds it."""


class ProcessTracker(Protocol):
    """The processes of all sandboxes of a fleet that are found by their ids."""

    def start(self, name: str, command: Command, keep: int = DEFAULT_KEPT_BYTES) -> TrackedProcess:
        """Start a command in a sandbox. Raises `SandboxStateError` if too many run there."""

    def all(self, name: str) -> tuple[ProcessStatus, ...]:
        """The processes of a sandbox: those that run, and the last that ended."""

    def get(self, name: str, process: str) -> TrackedProcess:
        """The process of this id. Raises `ProcessNotFoundError`."""
