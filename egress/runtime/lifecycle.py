"""The life of a sandbox, as far as it is the same in each runtime.

A `Lifecycle` owns the order of the steps: a sandbox is admitted by the proxy before it is made, and dismissed
before it is taken apart, so that nothing is served that has no sandbox. A `CommandLifecycle` adds commands. A
`DoorLifecycle` adds what each sandbox behind a door has: listeners that are handed over again to a proxy that
has returned. How a sandbox is made, started and paused is each runtime's own.
"""

from __future__ import annotations

import queue
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime
from functools import partial
from typing import BinaryIO, Final, NamedTuple, Protocol

from egress.runtime import transfer
from egress.runtime.door.controller import DoorController, default_ports
from egress.runtime.errors import (
    PortClosedError,
    SandboxDiedError,
    SandboxError,
    SandboxStateError,
    UnsupportedError,
)
from egress.runtime.mounted_files import MountedFiles
from egress.runtime.protocol import NO_OUTPUT, Output, Provisioner, Provisions, RuntimeProcess
from egress.runtime.proxy_client import Admission, ProxyClient, SandboxListener
from egress.runtime.sandbox_registry import RegisteredSandbox, SandboxRegistry
from egress.runtime.spec import (
    NO_VALUES,
    Command,
    Event,
    EventKind,
    ExecResult,
    Info,
    Spec,
    State,
    Values,
    check_ports,
)

_MAX_REMOVALS: Final = 8
"""At the same time, when a runtime is closed."""


class Status(NamedTuple):
    """How a sandbox is now."""

    state: State
    created: datetime | None = None
    exit_code: int | None = None


class Lifecycle[S: RegisteredSandbox](ABC):
    """Sandboxes by name, from `create` to `close`."""

    def __init__(self, proxy: ProxyClient, provision: Provisioner) -> None:
        """`_parts` is closed in the end; a runtime puts what it holds there."""
        self._proxy = proxy
        self._provisioner = provision
        self._register = SandboxRegistry[S](proxy, self._renewed)
        self._listeners: set[queue.SimpleQueue[Event | None]] = set()
        self._parts = ExitStack()

    @abstractmethod
    def _maker(self, spec: Spec) -> Callable[[], S]:
        """Check what can be checked before a name is taken; return what makes the sandbox."""

    @abstractmethod
    def _end(self, sandbox: S) -> None:
        """Take a sandbox apart; the proxy has let go of it."""

    @abstractmethod
    def _status(self, sandbox: S) -> Status:
        """Look at a sandbox."""

    @abstractmethod
    def _renewed(self, sandbox: S, admission: Admission) -> Iterable[SandboxListener]:
        """Give a sandbox the files of another admission, and return its listeners."""

    def create(self, spec: Spec) -> Info:
        self._register.add(spec.name, self._maker(spec))
        self._tell("created", spec.name)
        return self.info(spec.name)

    def remove(self, name: str) -> None:
        with self._register.removing(name) as sandbox:
            if sandbox is None:
                return
            # Dismissed first: nothing may be served for a sandbox that is being taken apart.
            self._proxy.dismiss(name)
            self._end(sandbox)
        self._tell("removed", name)

    def info(self, name: str) -> Info:
        sandbox = self._register.get(name)
        spec, status = sandbox.spec, self._status(sandbox)
        return Info(
            name=name,
            image=spec.image,
            state=status.state,
            profile=spec.profile,
            labels=spec.labels,
            created=status.created,
            exit_code=status.exit_code,
        )

    def planted(self, name: str) -> tuple[str, ...]:
        """The paths of the canary files of a sandbox; see `ArchivingRuntime`."""
        return tuple(each.file for each in self._register.get(name).admission.canaries if each.file)

    def list(self, labels: Values = NO_VALUES) -> tuple[Info, ...]:
        return self._register.list_infos(labels, self.info)

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        listener: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._listeners.add(listener)
        try:
            yield iter(listener.get, None)
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        try:
            # In parallel, because each removal waits for the processes of its sandbox.
            with ThreadPoolExecutor(_MAX_REMOVALS) as pool:
                # `tuple` waits for each removal, and raises the first error.
                tuple(pool.map(self.remove, self._register.names))
        finally:
            self._parts.close()
            # Listeners end last, after they have heard of every removal.
            for listener in tuple(self._listeners):
                listener.put(None)

    def _admitted(self, spec: Spec, make: Callable[[Admission], S]) -> S:
        """Have the proxy admit a sandbox that is made then; where it cannot be made it is dismissed."""
        admission = self._proxy.admit(spec.name, spec.profile, parameters=spec.parameters)
        try:
            return make(admission)
        except BaseException:
            # A failed sandbox leaves no admission behind: its name would stay taken.
            self._proxy.dismiss(spec.name)
            raise

    def _tell(self, kind: EventKind, name: str) -> None:
        for listener in tuple(self._listeners):
            listener.put(Event(kind, name))


class CommandLifecycle[S: RegisteredSandbox, P: RuntimeProcess](Lifecycle[S]):
    """Sandboxes in which commands run; files come and go by commands."""

    @abstractmethod
    def _running(self, name: str) -> S:
        """Return a sandbox that runs. Raises `SandboxError` for any other."""

    @abstractmethod
    def _begin(self, sandbox: S, command: Command, output: Output, *, is_open: bool) -> P:
        """Begin a command."""

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> P:
        refuse_rights(command)
        return self._begin(self._running(name), command, output, is_open=command.input is None)

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        refuse_rights(command)
        return self._begin(self._running(name), command, output, is_open=False).wait()

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        transfer.put(partial(self.exec, name), name, path, archive)

    def get(self, name: str, path: str) -> AbstractContextManager[BinaryIO]:
        return transfer.get(partial(self.exec, name), name, path)

    def archive(
        self, name: str, path: str, target: BinaryIO, max_bytes: int, omit: Collection[str] = ()
    ) -> None:
        transfer.write_archive(partial(self.exec, name), name, path, target, max_bytes, omit)


class BehindDoor(RegisteredSandbox, Protocol):
    """A sandbox behind a door."""

    provisions: Provisions

    @property
    def mounted_files(self) -> MountedFiles: ...

    @property
    def door_controller(self) -> DoorController: ...


class DoorLifecycle[S: BehindDoor, P: RuntimeProcess](CommandLifecycle[S, P]):
    """Sandboxes that each have a door, and commands that run in them."""

    @abstractmethod
    def _address(self, sandbox: S) -> str:
        """Return the address at which the door reaches the ports of a sandbox."""

    @abstractmethod
    def _provision(self, sandbox: S, admission: Admission) -> Provisions:
        """Return what a sandbox wears by an admission."""

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        check_ports(ports)
        self._proxy.hand_over(name, self._register.get(name).door_controller.open(default_ports(ports)))

    def dial(self, name: str, port: int) -> socket.socket:
        check_ports((port,))
        sandbox = self._running(name)
        sock = sandbox.door_controller.dial(self._address(sandbox), port)
        # Without a listener, a connection can meet itself: its own port may be the one that it dials.
        if sock.getsockname() == sock.getpeername():
            sock.close()
            raise PortClosedError(
                f"nothing listens on port {port} of the sandbox {name}", "start what is to listen first"
            )
        sock.settimeout(None)
        return sock

    def _renewed(self, sandbox: S, admission: Admission) -> Iterable[SandboxListener]:
        provisions = self._provision(sandbox, admission)
        # Before anybody answers with the new authority.
        sandbox.mounted_files.renew(provisions)
        sandbox.provisions = provisions
        return sandbox.door_controller.listeners


def refuse_rights(command: Command) -> None:
    """Refuse a command with rights of its own: without a ticket it would have those of its sandbox."""
    if command.rights is not None:
        raise UnsupportedError(
            "a runtime alone gives a run no rights of its own", "use a fleet: `egress.open_fleet`"
        )


def unfit(name: str, state: str) -> SandboxError:
    """Say that a sandbox cannot do this in its state."""
    if state == "stopped":
        return SandboxDiedError(f"the sandbox {name} has ended", "start it again, or remove it")
    cure = "resume it" if state == "paused" else "start it"
    return SandboxStateError(f"the sandbox {name} is {state}", cure)
