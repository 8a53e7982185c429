"""`Runtime`: the interface of every kind of sandbox, and the values it uses.

A runtime is synchronous, and several threads may use it. Every call on a sandbox returns when the sandbox
ends: with a result, or with `SandboxDiedError`. `remove` leaves nothing of a sandbox, and `close` nothing of
any.

Names are unique within a proxy. Every error is one of `egress.runtime.errors`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Protocol, runtime_checkable

from egress.run_ticket import RunTicket
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission, Bar, PlantedCanary
from egress.runtime.spec import NO_VALUES, Command, Event, ExecResult, Info, Mount, Spec, Terminal, Values

OutputCallback = Callable[[bytes], object]
"""Gets each piece of output from the reading thread. It must not wait for the same command."""


@dataclass(frozen=True, slots=True)
class Output:
    """Callbacks for output while a command runs."""

    stdout: OutputCallback | None = None
    stderr: OutputCallback | None = None


# Frozen, so that one value can be the default of every call.
NO_OUTPUT = Output()


@dataclass(frozen=True, slots=True)
class Provisions:
    """Files and variables that let a sandbox's programs find and trust the proxy; see `egress.runtime.kit`.

    They are complete before the first process starts.
    """

    folder: str = "/etc/egress"
    """The folder of all files, and of nothing else."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The files, read-only, by path in the sandbox."""
    overmounts: Mapping[str, str] = field(default_factory=dict)
    """Files that also appear at a second path: the file by that path."""
    variables: Values = NO_VALUES
    planted: tuple[PlantedCanary, ...] = ()
    """Canary files: the sandbox owns them, and may change or delete them.

    See `egress.runtime.canary_planting`.
    """


Provisioner = Callable[[Admission, ProxyAddress], Provisions]
"""Makes the provisions of a sandbox. Called again for a returned proxy, which has a new authority."""


def provision_minimal(_admission: Admission, proxy: ProxyAddress) -> Provisions:
    """The minimum: the variables of a proxy, without an authority."""
    # In lower case as well: some programs, such as curl, read `http_proxy` only so.
    names = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
    return Provisions(variables=dict.fromkeys(names, proxy.url))


class RuntimeProcess(Protocol):
    """A running command. Its output is read continuously, whether a caller waits or not."""

    def write(self, data: bytes) -> None:
        """Send input; returns when it was taken. Ignored after the command's end."""

    def close_input(self) -> None:
        """Close the input."""

    def resize(self, terminal: Terminal) -> None:
        """Change the size of its terminal."""

    def kill(self, grace: float = 2.0) -> None:
        """End the process group: SIGTERM, then SIGKILL after `grace`. Returns once that is under way."""

    def wait(self, timeout: float | None = None) -> ExecResult:
        """Return the result. Raises `SandboxTimeoutError` after `timeout` seconds."""


@dataclass(frozen=True, slots=True)
class KeptTerms:
    """The terms by which a sandbox outlives its runtime."""

    note: str
    """A text that whoever takes the sandbox over gets back."""
    deadline: float | None = None
    """When it is removed, in seconds of the clock; None for never."""


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A sandbox that a runtime has taken over from one that ended."""

    name: str
    terms: KeptTerms
    bar: Bar = ""
    """Why it has no access."""
    mounts: tuple[Mount, ...] = ()
    """What it sees of the machine, with resolved sources."""


class Runtime(Protocol):
    """Sandboxes of one kind, behind one proxy."""

    def create(self, spec: Spec) -> Info:
        """Create a sandbox without starting processes. A failure leaves nothing behind."""

    def start(self, name: str) -> Info:
        """Make a sandbox ready for commands. Does nothing if it is."""

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> RuntimeProcess:
        """Start a command."""

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        """Run a command to its end. Any exit status is a result; see `ExecResult.check`."""

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        """Lead further ports to the proxy, for rules that name them. Ports that do so already stay open."""

    def dial(self, name: str, port: int) -> socket.socket:
        """Connect to a TCP port of a program in the sandbox; the socket has no timeout.

        Raises `PortClosedError` if no program listens. Not every runtime reaches programs that listen on the
        sandbox's loopback only: servers should listen on all addresses.
        """

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        """Unpack a tar archive into a folder, as the user of the sandbox."""

    def get(self, name: str, path: str) -> AbstractContextManager[BinaryIO]:
        """A tar archive of a file, or of a folder's content. No entry leads out of the archive."""

    def pause(self, name: str) -> None:
        """Freeze all processes. Does nothing if they are frozen."""

    def resume(self, name: str) -> None:
        """Thaw the processes."""

    def stop(self, name: str) -> None:
        """End all processes. A later start finds the files that were written.

        Files in memory are lost: a limited disk is empty at every start.
        """

    def remove(self, name: str) -> None:
        """Remove a sandbox with its files. Does nothing if it does not exist."""

    def prepare(self, spec: Spec, count: int) -> None:
        """Keep this many sandboxes ready that differ from `spec` only in name, profile, env and labels.

        `create` takes a ready one if it can; each is used once, and replaced by a new one. 0 ends it. Returns
        before they are ready. A runtime that is fast enough may do nothing. Raises `SpecError` for too many,
        and `UnsupportedError` for a spec that cannot be prepared.
        """

    def info(self, name: str) -> Info:
        """The state of a sandbox."""

    def list(self, labels: Values = NO_VALUES) -> tuple[Info, ...]:
        """Sandboxes with all of these labels, by name."""

    def events(self) -> AbstractContextManager[Iterator[Event]]:
        """Events of sandboxes from now on, until the context or the runtime ends."""

    def close(self) -> None:
        """Remove all sandboxes."""


@runtime_checkable
class ArchivingRuntime(Protocol):
    """A runtime whose files can be kept as snapshots."""

    def archive(
        self, name: str, path: str, target: BinaryIO, max_bytes: int, omit: Collection[str] = ()
    ) -> None:
        """Write a tar archive of a folder's content to a file, without the entries named in `omit`.

        Raises `ArchiveTooLargeError` as soon as the sandbox sends more than `max_bytes`.
        """

    def planted(self, name: str) -> tuple[str, ...]:
        """The paths of the canary files of a sandbox; `~/` stands for its home."""


@runtime_checkable
class TicketKeeper(Protocol):
    """Registers the tickets of runs where the proxy of the sandboxes finds them."""

    def add_ticket(
        self, name: str, ticket: RunTicket, seconds: int, by: str = "", *, is_delegated: bool = False
    ) -> int:
        """Register a ticket of a sandbox for so many seconds; `by` asked for it.

        With `is_delegated` it holds as far as the rules delegate its profile. Returns the second of its end,
        since 1970.
        """

    def end_ticket(self, name: str, ticket: str, made_by: str | None = None) -> None:
        """Revoke a ticket, by its id. Does nothing if it has ended.

        With `made_by`, only a ticket that this caller asked for.
        """


SAVED_IMAGE_REPOSITORY: Final = "egress-snapshot"
"""The name of every image that holds the file system of a sandbox; each has a tag of its own."""


@dataclass(frozen=True, slots=True)
class SavedImage:
    """The file system of a sandbox, kept as an image."""

    size: int
    """Bytes that it holds beyond the image of the sandbox."""
    user: int
    group: int
    """The ids of the sandbox, which own its files."""


@runtime_checkable
class ImageSavingRuntime(Protocol):
    """A runtime that keeps the whole file system of a sandbox."""

    def save_image(self, name: str, image: str, max_bytes: int) -> SavedImage:
        """Keep the file system of a running sandbox under this name, without its workspace and its mounts.

        Its processes stand still meanwhile. Raises `ArchiveTooLargeError`, and `UnsupportedError` for a
        sandbox with canary files, which the image would hold.
        """

    def remove_saved_image(self, image: str) -> None:
        """Remove such an image, if it is there. Raises `EngineError` while a sandbox uses it."""


@runtime_checkable
class KeepingRuntime(Runtime, Protocol):
    """A runtime whose sandboxes can outlive it.

    Without a runtime containers have no network; pods have that of their gateway, under its rules.
    """

    def keep(self, name: str, terms: KeptTerms) -> None:
        """Let a sandbox outlive this runtime, or change its terms.

        Raises `EngineUnavailableError` if that cannot be recorded.
        """

    def bar(self, name: str, bar: Bar) -> None:
        """Record why a kept sandbox has no access, or that it has."""

    def take_over(self) -> tuple[TakenOver, ...]:
        """Take over what the last runtime of this folder kept. A sandbox that has changed stays as it is."""

    def leave(self) -> None:
        """End without the kept sandboxes, which lose their network. All others are removed."""
