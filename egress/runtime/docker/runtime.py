"""Sandboxes as Docker containers, each behind its own door, without any other way out.

This module combines the parts; each part has its own module. A sandbox is created in this order, and any
failure undoes the steps before it:

    admitted by the proxy -> an unassigned container (network, door, container), ready or new -> its
    files and canaries -> its ports handed over -> its name

The proxy may end at any time. Its ports are then unserved, and a returning proxy gets the same sockets: the
sandbox notices a pause and a new authority, never another network.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

import structlog

from egress.runtime import canary_planting, mounts, transfer
from egress.runtime.docker import container, isolation, labels, names
from egress.runtime.docker import unassigned as sample
from egress.runtime.docker.container_pool import ContainerPool
from egress.runtime.docker.engine import ENGINE_SOCKET, ContainerGoneError, ContainerState, DockerEngine
from egress.runtime.docker.engine_events import sandbox_events
from egress.runtime.docker.network_cell import NetworkCell, NetworkCellPool
from egress.runtime.docker.process import DockerProcess, ExecTarget, death_error
from egress.runtime.docker.reaper import reap
from egress.runtime.docker.unassigned import (
    UnassignedContainer,
    UnassignedContainerFactory,
    mount_placeholders,
)
from egress.runtime.door.controller import PROXY_PORT, DoorController, default_ports
from egress.runtime.errors import (
    EngineError,
    SandboxError,
    SandboxStateError,
)
from egress.runtime.mounted_files import MountedFiles
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
    ExecResult,
    Info,
    Spec,
    State,
    Values,
    check_ports,
)

_log = structlog.get_logger(__name__)

_STATE_NAMES: Final[dict[str, State]] = {"created": "created", "running": "running", "paused": "paused"}
_MAX_PARALLEL_REMOVALS: Final = 8


@dataclass(slots=True)
class _DockerSandbox:
    """A sandbox."""

    spec: Spec
    unassigned: UnassignedContainer
    """The container that it was made from."""
    provisions: Provisions
    admission: Admission
    """The first admission: canaries planted in it stay when another proxy admits it."""
    is_started: bool = False
    """Whether the sandbox was started; its container always runs."""

    @property
    def cell(self) -> NetworkCell:
        return self.unassigned.cell

    @property
    def container(self) -> str:
        return self.unassigned.container

    @property
    def mounted_files(self) -> MountedFiles:
        return self.unassigned.mounted_files

    @property
    def door_controller(self) -> DoorController:
        return self.cell.door_controller


class DockerRuntime:
    """A `Runtime` of the Docker engine on this machine."""

    def __init__(
        self,
        proxy: ProxyClient,
        home: Path,
        provision: Provisioner = provision_minimal,
        *,
        engine: Path = ENGINE_SOCKET,
        ready: int = 1,
        guarded: tuple[Path, ...] = (),
        runtime: str | None = None,
        seccomp: Path | None = None,
    ) -> None:
        """Connect to proxy and engine, and remove what dead runtimes left in `home`.

        `home` is a folder for files of sandboxes, for this user alone; `ready` says how many cells are made
        ahead; `guarded` are folders of the host that are never mounted, such as the proxy's. `runtime` names
        a runtime of the engine, such as `runsc`, and `seccomp` is a seccomp profile: both apply to sandboxes.
        """
        with ExitStack() as parts:
            self._home = own_folder(home)
            self._proxy = proxy
            self._provisioner = provision
            self._engine = DockerEngine(engine)
            parts.callback(self._engine.close)
            self._isolation = isolation.choose_isolation(self._engine, runtime, seccomp)
            # Leftovers go before our own lease exists: every lease found then belongs to another process.
            reap(self._engine, self._home, proxy)
            self._lease = parts.enter_context(OwnerLock(self._home))
            self._cells = NetworkCellPool(self._engine, self._home, str(self._lease.path), ready)
            parts.callback(self._cells.close)
            self._factory = UnassignedContainerFactory(
                self._engine,
                self._cells,
                str(self._lease.path),
                (*guarded, self._home, engine),
                self._isolation,
            )
            self._pool = ContainerPool(self._engine, self._prewarm)
            parts.callback(self._pool.close)
            self._register = SandboxRegistry[_DockerSandbox](proxy, self._provision_again)
            self._lock = threading.Lock()
            self._presence = ProxyMonitor(proxy, self._register.readmit_all)
            parts.callback(self._presence.close)
            self._parts = parts.pop_all()

    @property
    def cautions(self) -> tuple[str, ...]:
        """The gaps that this engine leaves in the isolation, for its operator."""
        return isolation.cautions(self._engine.major, self._engine.version, self._isolation)

    # Lifecycle

    def create(self, spec: Spec) -> Info:
        image = self._engine.image_id(spec.image)
        self._register.add(spec.name, lambda: self._make(spec, image))
        return self.info(spec.name)

    def start(self, name: str) -> Info:
        box = self._register.get(name)
        if box.spec.mounts and not self._condition(box).is_alive:
            # The engine resolves the paths of mounts at each start.
            mounts.refuse_moved(box.spec.mounts)
        try:
            was_alive = not box.provisions.planted or self._condition(box).is_alive
            # Starting a running container does nothing.
            self._engine.start_container(box.container)
            with self._lock:
                is_first, box.is_started = not box.is_started, True
            if is_first:
                self._engine.rename_container(box.container, names.started(name, box.cell.id))
            if not was_alive:
                self._plant_again(box)
        except ContainerGoneError:
            raise death_error(name, None) from None
        return self.info(name)

    def stop(self, name: str) -> None:
        box = self._register.get(name)
        condition = self._condition(box)
        if condition.state == "created":
            return
        if condition.state == "paused":
            self._engine.resume_container(box.container)
        self._engine.stop_container(box.container, grace=1)

    def remove(self, name: str) -> None:
        with self._register.removing(name) as box:
            if box is None:
                return
            self._proxy.dismiss(name)
            box.cell.end_network()
            box.unassigned.close()

    def pause(self, name: str) -> None:
        box = self._register.get(name)
        condition = self._condition(box)
        if condition.state == "running":
            self._engine.pause_container(box.container)
        elif condition.state != "paused":
            raise _state_error(name, condition)

    def resume(self, name: str) -> None:
        box = self._register.get(name)
        condition = self._condition(box)
        if condition.state == "paused":
            try:
                self._engine.resume_container(box.container)
            except EngineError:
                # An engine may report for a moment that a running container is paused.
                if self._condition(box).state != "running":
                    raise
        elif condition.state != "running":
            raise _state_error(name, condition)

    def close(self) -> None:
        try:
            with ThreadPoolExecutor(_MAX_PARALLEL_REMOVALS) as pool:
                list(pool.map(self.remove, self._register.names))
        finally:
            self._parts.close()

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        check_ports(ports)
        box = self._register.get(name)
        opened = box.cell.door_controller.open(default_ports(ports))
        self._proxy.hand_over(name, opened)

    def prepare(self, spec: Spec, count: int) -> None:
        self._pool.want(spec, count)

    def dial(self, name: str, port: int) -> socket.socket:
        check_ports((port,))
        box = self._running(name)
        sock = box.cell.door_controller.dial(box.cell.sandbox_address, port)
        sock.settimeout(None)
        return sock

    # Commands

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> DockerProcess:
        return self._begin(name, command, output, is_open=command.input is None)

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        return self._begin(name, command, output, is_open=False).wait()

    def _begin(self, name: str, command: Command, output: Output, *, is_open: bool) -> DockerProcess:
        box = self._running(name)
        return self._in_container(box.spec, box.container, box.provisions, command, output, is_open=is_open)

    def _in_container(
        self, spec: Spec, id_: str, provisions: Provisions, command: Command, output: Output, *, is_open: bool
    ) -> DockerProcess:
        user = f"{spec.user}:{spec.group}"
        begun = ExecTarget(
            self._engine, id_, spec.name, user, spec.workdir, container.variables(spec, provisions)
        )
        return DockerProcess(begun, command, output, is_open=is_open)

    # Files

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        transfer.put(lambda command, output: self.exec(name, command, output), name, path, archive)

    def get(self, name: str, path: str) -> AbstractContextManager[BinaryIO]:
        return transfer.get(lambda command, output: self.exec(name, command, output), name, path)

    # State

    def info(self, name: str) -> Info:
        box = self._register.get(name)
        condition = _visible_state(box, self._engine.container_state(box.container))
        state = _STATE_NAMES.get(condition.state, "stopped") if condition else "stopped"
        return Info(
            name=name,
            image=box.spec.image,
            state=state,
            profile=box.spec.profile,
            labels=box.spec.labels,
            created=condition.created if condition else None,
            exit_code=condition.exit_code if condition and state == "stopped" else None,
        )

    def list(self, labels: Values = NO_VALUES) -> tuple[Info, ...]:
        return self._register.list_infos(labels, self.info)

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        wanted = (f"{labels.ROLE_LABEL}={labels.ROLE_SANDBOX}", f"{labels.LEASE_LABEL}={self._lease.path}")
        with self._engine.events(*wanted) as stream:
            yield sandbox_events(stream)

    # Creation

    def _make(self, spec: Spec, image: str) -> _DockerSandbox:
        # Before the proxy is asked: the proxy records every admission.
        spec = replace(spec, mounts=self._factory.mounts(spec))
        admission = self._proxy.admit(spec.name, spec.profile)
        try:
            return self._place(spec, image, admission)
        except BaseException:
            self._proxy.dismiss(spec.name)
            raise

    def _place(self, spec: Spec, image: str, admission: Admission) -> _DockerSandbox:
        unassigned = self._take_prewarmed(spec, image, admission) or self._factory.make(
            spec, image, lambda cell: self._provision(admission, cell, spec)
        )
        # Canaries first, then the ports, and the name last: a name makes the container a sandbox.
        try:
            self._plant(spec, unassigned.container, unassigned.provisions)
            self._proxy.hand_over(spec.name, unassigned.cell.door_controller.listeners)
            self._engine.rename_container(unassigned.container, names.assigned(spec.name, unassigned.cell.id))
        except BaseException:
            unassigned.close()
            raise
        return _DockerSandbox(spec, unassigned, unassigned.provisions, admission)

    def _plant(self, spec: Spec, container_id: str, provisions: Provisions, *, again: bool = False) -> None:
        def run(command: Command) -> ExecResult:
            return self._in_container(
                spec, container_id, provisions, command, NO_OUTPUT, is_open=False
            ).wait()

        try:
            canary_planting.plant(run, spec, provisions, again=again)
        except EngineError:
            condition = self._engine.container_state(container_id)
            if condition is not None and condition.is_alive:
                raise
            # The image's shell runs the first process too, so a broken shell ends the container.
            raise death_error(spec.name, condition) from None

    def _plant_again(self, box: _DockerSandbox) -> None:
        """Plant again after a stop: files in memory are gone.

        Without its canaries the sandbox must not run.
        """
        try:
            self._plant(box.spec, box.container, box.provisions, again=True)
        except BaseException:
            self._engine.stop_container(box.container, grace=0)
            raise

    def _take_prewarmed(self, spec: Spec, image: str, admission: Admission) -> UnassignedContainer | None:
        """A ready container with the provisions of this sandbox; None if none is ready or none fits."""
        unassigned = self._pool.take(spec, image)
        if unassigned is None:
            return None
        try:
            provisions = self._provision(admission, unassigned.cell, spec)
            if unassigned.fits(provisions):
                unassigned.mounted_files.renew(provisions)
                unassigned.provisions = provisions
                return unassigned
        except BaseException:
            unassigned.close()
            raise
        unassigned.close()
        return None

    def _prewarm(self, spec: Spec, image: str) -> UnassignedContainer:
        return self._factory.make(
            spec,
            image,
            lambda cell: mount_placeholders(self._provision(sample.dummy_admission(), cell, spec)),
        )

    def _provision(self, admission: Admission, cell: NetworkCell, spec: Spec) -> Provisions:
        return canary_planting.provision_with_canaries(
            self._provisioner, admission, ProxyAddress(cell.door_address, PROXY_PORT), spec
        )

    def _provision_again(self, box: _DockerSandbox, admission: Admission) -> Provisions:
        return self._provision(admission, box.cell, box.spec)

    # Internals

    def _running(self, name: str) -> _DockerSandbox:
        box = self._register.get(name)
        condition = self._condition(box)
        if condition.state != "running":
            raise _state_error(name, condition)
        return box

    def _condition(self, box: _DockerSandbox) -> ContainerState:
        found = _visible_state(box, self._engine.container_state(box.container))
        if found is None:
            raise death_error(box.spec.name, None)
        return found


def _visible_state(box: _DockerSandbox, condition: ContainerState | None) -> ContainerState | None:
    """The state for users: the container of a sandbox that was not started counts as created."""
    if condition is not None and condition.is_alive and not box.is_started:
        return replace(condition, state="created")
    return condition


def _state_error(name: str, condition: ContainerState) -> SandboxError:
    if not condition.is_alive and condition.state != "created":
        return death_error(name, condition)
    cure = "resume it" if condition.state == "paused" else "start it"
    return SandboxStateError(f"the sandbox {name} is {condition.state}", cure)
