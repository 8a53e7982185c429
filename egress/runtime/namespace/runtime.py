"""Sandboxes as namespaces, each in its own network with a door, without any other way out.

This module combines the parts; each part has its own module. A sandbox is created in this order, and any
failure undoes the steps before it:

    admitted by the proxy -> its files -> control groups -> namespaces with a door -> its ports handed over

The proxy may end at any time. Its ports are then unserved, and a returning proxy gets the same sockets: the
sandbox notices a pause and a new authority, never another network.
"""

from __future__ import annotations

import os
import queue
import secrets
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import structlog

from egress.runtime import canary_planting, mounts, transfer
from egress.runtime.door.controller import PROXY_PORT, default_ports
from egress.runtime.errors import (
    PortClosedError,
    SandboxDiedError,
    SandboxError,
    SandboxStateError,
)
from egress.runtime.namespace import cgroups, image_folder, kernel_support, reaper, sandbox_plan, user_mapping
from egress.runtime.namespace.process import NamespaceProcess
from egress.runtime.namespace.sandbox import KILLED_STATUS, NamespaceSandbox, SandboxPlacement, make_sandbox
from egress.runtime.owner_lock import OwnerLock, own_folder
from egress.runtime.protocol import NO_OUTPUT, Output, Provisioner, Provisions, provision_minimal
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission, ProxyClient
from egress.runtime.proxy_monitor import ProxyMonitor
from egress.runtime.sandbox_registry import SandboxRegistry
from egress.runtime.spec import (
    NO_VALUES,
    Command,
    Event,
    EventKind,
    ExecResult,
    Info,
    Spec,
    Values,
    check_ports,
    check_ready_count,
)

_log = structlog.get_logger(__name__)

_MAX_PARALLEL_REMOVALS: Final = 8
_LOOPBACK_ADDRESS: Final = "127.0.0.1"
_PROXY_ADDRESS: Final = ProxyAddress(sandbox_plan.DOOR_ADDRESS, PROXY_PORT)


class NamespaceRuntime:
    """A `Runtime` that needs only the Linux kernel."""

    def __init__(
        self,
        proxy: ProxyClient,
        home: Path,
        provision: Provisioner = provision_minimal,
        *,
        guarded: tuple[Path, ...] = (),
    ) -> None:
        """Connect to the proxy, test namespaces, and remove what dead runtimes left in `home`.

        `home` is a folder for files of sandboxes, for this user alone; `guarded` are folders of the host that
        are never mounted, such as the proxy's. Raises `UnsupportedError` if the kernel refuses namespaces.
        """
        with ExitStack() as parts:
            kernel_support.check()
            self._home = own_folder(home)
            self._proxy = proxy
            self._provisioner = provision
            self._guarded = (*guarded, self._home)
            self._status = Path("/proc/self/status").read_text(encoding="utf-8")
            self._uid_map = Path("/proc/self/uid_map").read_text(encoding="ascii")
            reaper.reap(self._home, proxy)
            self._lease = parts.enter_context(OwnerLock(self._home))
            self._hierarchies = cgroups.find_hierarchies()
            self._register = SandboxRegistry[NamespaceSandbox](proxy, self._provision)
            self._lock = threading.Lock()
            self._listeners: set[queue.SimpleQueue[Event | None]] = set()
            self._presence = ProxyMonitor(proxy, self._register.readmit_all)
            parts.callback(self._presence.close)
            self._parts = parts.pop_all()

    @property
    def cautions(self) -> tuple[str, ...]:
        """The gaps in the isolation, for the operator; the first applies to every sandbox."""
        bounded = cgroups.probe(self._hierarchies)
        return kernel_support.list_cautions(
            bounded, has_rights=user_mapping.has_rights(self._status), is_root=os.geteuid() == 0
        )

    # Lifecycle

    def create(self, spec: Spec) -> Info:
        image = image_folder.image_root(spec.image, self._guarded)
        self._register.add(spec.name, lambda: self._make(spec, image))
        self._tell("created", spec.name)
        return self.info(spec.name)

    def start(self, name: str) -> Info:
        box = self._register.get(name)
        with box.using:
            if box.state in ("created", "stopped"):
                box.launcher.start()
                self._plant(box)
                box.state = "running"
                self._tell("started", name)
                if not box.launcher.first:
                    # Init ended before its start was recorded.
                    self._is_over(box)
        return self.info(name)

    def _plant(self, box: NamespaceSandbox) -> None:
        """Plant canaries before any other command. Raises `SandboxError`; the sandbox is then stopped."""
        try:
            canary_planting.plant(
                lambda command: self._begin_process(box, command, NO_OUTPUT, is_open=False).wait(),
                box.spec,
                box.provisions,
                again=box.state == "stopped",
            )
        except BaseException:
            box.end()
            raise

    def stop(self, name: str) -> None:
        box = self._register.get(name)
        with box.using:
            if self._is_over(box):
                box.end()

    def remove(self, name: str) -> None:
        with self._register.removing(name) as box:
            if box is None:
                return
            self._proxy.dismiss(name)
            # The door closes first: from here on no traffic leaves the sandbox.
            box.door_controller.close()
            with box.using:
                self._is_over(box)
            box.parts.close()
        self._tell("removed", name)

    def pause(self, name: str) -> None:
        self._switch(name, is_paused=True)

    def resume(self, name: str) -> None:
        self._switch(name, is_paused=False)

    def prepare(self, spec: Spec, count: int) -> None:
        """Only check the arguments: creating a sandbox is fast enough without a reserve."""
        check_ready_count(count)
        image_folder.image_root(spec.image, self._guarded)

    def close(self) -> None:
        try:
            with ThreadPoolExecutor(_MAX_PARALLEL_REMOVALS) as pool:
                list(pool.map(self.remove, self._register.names))
        finally:
            self._parts.close()
            for listener in list(self._listeners):
                listener.put(None)

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        check_ports(ports)
        box = self._register.get(name)
        opened = box.door_controller.open(default_ports(ports))
        self._proxy.hand_over(name, opened)

    def _switch(self, name: str, *, is_paused: bool) -> None:
        box = self._register.get(name)
        with box.using:
            if box.state == ("paused" if is_paused else "running"):
                return
            if box.state not in ("running", "paused"):
                raise _state_error(name, box.state)
            box.pause(is_paused=is_paused)
            box.state = "paused" if is_paused else "running"
            self._tell("paused" if is_paused else "resumed", name)

    def _is_over(self, box: NamespaceSandbox) -> bool:
        """Record the end of the processes; returns whether they were alive before."""
        with self._lock:
            was_alive = box.state in ("running", "paused")
            if was_alive:
                box.state = "stopped"
        if was_alive:
            self._tell("died", box.spec.name)
        return was_alive

    # Commands

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> NamespaceProcess:
        return self._begin(name, command, output, is_open=command.input is None)

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        return self._begin(name, command, output, is_open=False).wait()

    def dial(self, name: str, port: int) -> socket.socket:
        check_ports((port,))
        sock = self._running(name).door_controller.dial(_LOOPBACK_ADDRESS, port)
        # Without a listener, a loopback connection can connect to itself, if its own port is the dialled one.
        if sock.getsockname() == sock.getpeername():
            sock.close()
            raise PortClosedError(
                f"no program listens on port {port} of the sandbox {name}", "start the server first"
            )
        sock.settimeout(None)
        return sock

    def _running(self, name: str) -> NamespaceSandbox:
        box = self._register.get(name)
        if box.state != "running":
            raise _state_error(name, box.state)
        return box

    def _begin(self, name: str, command: Command, output: Output, *, is_open: bool) -> NamespaceProcess:
        return self._begin_process(self._running(name), command, output, is_open=is_open)

    def _begin_process(
        self, box: NamespaceSandbox, command: Command, output: Output, *, is_open: bool
    ) -> NamespaceProcess:
        spec, variables = box.spec, sandbox_plan.variables(box.spec, box.provisions)
        return NamespaceProcess(
            spec.name, spec.workdir, variables, command, output, box.launcher.spawn, is_open=is_open
        )

    # Files

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        transfer.put(partial(self.exec, name), name, path, archive)

    @contextmanager
    def get(self, name: str, path: str) -> Iterator[BinaryIO]:
        with transfer.get(partial(self.exec, name), name, path) as file:
            yield file

    # State

    def info(self, name: str) -> Info:
        box = self._register.get(name)
        return Info(
            name=name,
            image=box.spec.image,
            state=box.state,
            profile=box.spec.profile,
            labels=box.spec.labels,
            created=box.created,
            exit_code=KILLED_STATUS if box.state == "stopped" else None,
        )

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

    def _tell(self, kind: EventKind, name: str) -> None:
        for listener in list(self._listeners):
            listener.put(Event(kind, name))

    # Creation

    def _make(self, spec: Spec, image: Path | None) -> NamespaceSandbox:
        # Everything that can fail without the proxy comes first: the proxy records every admission.
        bound = mounts.check_mounts(spec.mounts, self._guarded, sandbox_plan.RESERVED_PATHS)
        who = user_mapping.choose_mapping(self._status, self._uid_map, secrets.randbits(32))
        place = SandboxPlacement(self._home, str(self._lease.path), self._hierarchies)
        admission = self._proxy.admit(spec.name, spec.profile)
        try:
            provisions = canary_planting.provision_with_canaries(
                self._provisioner, admission, _PROXY_ADDRESS, spec
            )
            taken = (*sandbox_plan.RESERVED_PATHS, provisions.folder, *provisions.overmounts)
            bound = mounts.check_mounts(bound, self._guarded, taken)
            box = make_sandbox(spec, place, image, bound, provisions, who, lambda: self._died(spec.name))
            box.admission = admission
            with ExitStack() as undo:
                undo.callback(box.parts.close)
                box.door_controller.open(default_ports(spec.ports))
                self._proxy.hand_over(spec.name, box.door_controller.listeners)
                undo.pop_all()
        except BaseException:
            self._proxy.dismiss(spec.name)
            raise
        return box

    def _died(self, name: str) -> None:
        """Called when init has ended, expected or not."""
        box = self._register.find(name)
        if box is not None:
            self._is_over(box)

    def _provision(self, box: NamespaceSandbox, admission: Admission) -> Provisions:
        return canary_planting.provision_with_canaries(self._provisioner, admission, _PROXY_ADDRESS, box.spec)


def _state_error(name: str, state: str) -> SandboxError:
    if state == "stopped":
        return SandboxDiedError(f"the sandbox {name} has ended", "start it again, or remove it")
    cure = "resume it" if state == "paused" else "start it"
    return SandboxStateError(f"the sandbox {name} is {state}", cure)
