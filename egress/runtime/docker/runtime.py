"""Sandboxes as containers: each behind a door of its own, and none with another way out.

This puts the parts in order and takes them apart again; each part is elsewhere. A sandbox is made in this
order, and whatever fails, what was made before is taken away:

    admitted by the proxy -> a blank (network, door, container), made ahead or now -> its files -> its ports
    handed over -> its name

The proxy may end at any time. Then nobody serves the door, and when a proxy is there again it gets the same
sockets: the sandbox sees a pause and a new authority, never another network.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from egress.runtime import canary_planting, mounts
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
from egress.runtime.door.controller import PROXY_PORT, DoorController
from egress.runtime.errors import (
    EngineError,
    SandboxError,
)
from egress.runtime.lifecycle import DoorLifecycle, Status, unfit
from egress.runtime.mounted_files import MountedFiles
from egress.runtime.owner_lock import OwnerLock, own_folder
from egress.runtime.protocol import (
    NO_OUTPUT,
    Output,
    Provisioner,
    Provisions,
    ProxyEndpoint,
    provision_minimal,
)
from egress.runtime.proxy_client import Admission, ProxyClient
from egress.runtime.proxy_monitor import ProxyMonitor
from egress.runtime.spec import (
    Command,
    Event,
    ExecResult,
    Info,
    Spec,
    State,
)

_STATE_NAMES: Final[dict[str, State]] = {"created": "created", "running": "running", "paused": "paused"}


@dataclass(slots=True)
class _DockerSandbox:
    """One sandbox."""

    spec: Spec
    unassigned: UnassignedContainer
    """What it began as."""
    provisions: Provisions
    admission: Admission
    """The one it was made by: what is planted in it stays when another proxy admits it."""
    is_started: bool = False
    """As somebody's: its container runs before."""

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


class DockerRuntime(DoorLifecycle[_DockerSandbox, DockerProcess]):
    """A `Runtime` of the Docker engine on this machine."""

    def __init__(
        self,
        gateway: ProxyClient,
        home: Path,
        dress: Provisioner = provision_minimal,
        *,
        engine: Path = ENGINE_SOCKET,
        ready: int = 1,
        guarded: tuple[Path, ...] = (),
        runtime: str | None = None,
        seccomp: Path | None = None,
    ) -> None:
        """Meet proxy and engine, and clear away what runtimes that ended left in `home`.

        `home` is a folder for files of sandboxes, of this user alone; `ready` says how many networks with a
        door are made ahead, whatever comes into them; `guarded` are folders of the host that are never
        mounted, such as those of the proxy. `runtime` names one of the engine's, such as `runsc`, and
        `seccomp` a profile in the engine's form: both are passed on for sandboxes.
        """
        super().__init__(gateway, dress)
        with ExitStack() as parts:
            self._home = own_folder(home)
            self._engine = DockerEngine(engine)
            parts.callback(self._engine.close)
            self._isolation = isolation.choose_isolation(self._engine, runtime, seccomp)
            reap(self._engine, self._home, gateway)
            self._lease = parts.enter_context(OwnerLock(self._home))
            self._cells = NetworkCellPool(self._engine, self._home, str(self._lease.path), ready)
            parts.callback(self._cells.close)
            self._blanks = UnassignedContainerFactory(
                self._engine,
                self._cells,
                str(self._lease.path),
                (*guarded, self._home, engine),
                self._isolation,
            )
            self._pool = ContainerPool(self._engine, self._prewarm)
            parts.callback(self._pool.close)
            self._lock = threading.Lock()
            self._presence = ProxyMonitor(gateway, self._register.readmit_all)
            parts.callback(self._presence.close)
            self._parts = parts.pop_all()

    @property
    def cautions(self) -> tuple[str, ...]:
        """What this engine does not keep a sandbox from, for its operator."""
        return isolation.cautions(self._engine.major, self._engine.version, self._isolation)

    # Coming and going

    def start(self, name: str) -> Info:
        box = self._register.get(name)
        if box.spec.mounts and not self._condition(box).is_alive:
            # The engine follows their paths again.
            mounts.refuse_moved(box.spec.mounts)
        try:
            was_alive = not box.provisions.planted or self._condition(box).is_alive
            # Nothing happens where it runs already.
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

    def _end(self, sandbox: _DockerSandbox) -> None:
        sandbox.cell.end_network()
        sandbox.unassigned.close()

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
                # An engine may say for a moment that what runs is paused.
                if self._condition(box).state != "running":
                    raise
        elif condition.state != "running":
            raise _state_error(name, condition)

    def prepare(self, spec: Spec, count: int) -> None:
        self._pool.want(spec, count)

    # Commands

    def _begin(
        self, sandbox: _DockerSandbox, command: Command, output: Output, *, is_open: bool
    ) -> DockerProcess:
        return self._in_container(
            sandbox.spec, sandbox.container, sandbox.provisions, command, output, is_open=is_open
        )

    def _address(self, sandbox: _DockerSandbox) -> str:
        return sandbox.cell.sandbox_address

    def _in_container(
        self, spec: Spec, id_: str, outfit: Provisions, command: Command, output: Output, *, is_open: bool
    ) -> DockerProcess:
        user = f"{spec.user}:{spec.group}"
        begun = ExecTarget(
            self._engine, id_, spec.name, user, spec.workdir, container.variables(spec, outfit)
        )
        return DockerProcess(begun, command, output, is_open=is_open)

    # Looking

    def _status(self, sandbox: _DockerSandbox) -> Status:
        condition = _visible_state(sandbox, self._engine.container_state(sandbox.container))
        if condition is None:
            return Status("stopped")
        state = _STATE_NAMES.get(condition.state, "stopped")
        return Status(state, condition.created, condition.exit_code if state == "stopped" else None)

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        wanted = (f"{labels.ROLE_LABEL}={labels.ROLE_SANDBOX}", f"{labels.LEASE_LABEL}={self._lease.path}")
        with self._engine.events(*wanted) as stream:
            yield sandbox_events(stream)

    # Making

    def _maker(self, spec: Spec) -> Callable[[], _DockerSandbox]:
        image = self._engine.image_id(spec.image)
        return lambda: self._make(spec, image)

    def _make(self, spec: Spec, image: str) -> _DockerSandbox:
        # Before the proxy is asked: it would record that one came and went.
        spec = replace(spec, mounts=self._blanks.mounts(spec))
        return self._admitted(spec, lambda admission: self._place(spec, image, admission))

    def _place(self, spec: Spec, image: str, admission: Admission) -> _DockerSandbox:
        blank = self._take_prewarmed(spec, image, admission) or self._blanks.make(
            spec, image, lambda cell: self._dressed_in(cell, admission, spec)
        )
        try:
            self._plant(spec, blank.container, blank.provisions)
            self._gateway.hand_over(spec.name, blank.cell.door_controller.listeners)
            self._engine.rename_container(blank.container, names.assigned(spec.name, blank.cell.id))
        except BaseException:
            blank.close()
            raise
        return _DockerSandbox(spec, blank, blank.provisions, admission)

    def _plant(self, spec: Spec, container_id: str, outfit: Provisions, *, again: bool = False) -> None:
        def run(command: Command) -> ExecResult:
            return self._in_container(spec, container_id, outfit, command, NO_OUTPUT, is_open=False).wait()

        try:
            canary_planting.plant(run, spec, outfit, again=again)
        except EngineError:
            condition = self._engine.container_state(container_id)
            if condition is not None and condition.is_alive:
                raise
            # Its own first process is a shell too.
            raise death_error(spec.name, condition) from None

    def _plant_again(self, box: _DockerSandbox) -> None:
        """What lay in memory went with its end. Where it cannot be there again, nothing runs."""
        try:
            self._plant(box.spec, box.container, box.provisions, again=True)
        except BaseException:
            self._engine.stop_container(box.container, grace=0)
            raise

    def _take_prewarmed(self, spec: Spec, image: str, admission: Admission) -> UnassignedContainer | None:
        """One that was made ahead, dressed; None where there is none, or none that fits."""
        blank = self._pool.take(spec, image)
        if blank is None:
            return None
        try:
            outfit = self._dressed_in(blank.cell, admission, spec)
            if blank.fits(outfit):
                blank.mounted_files.renew(outfit)
                blank.provisions = outfit
                return blank
        except BaseException:
            blank.close()
            raise
        blank.close()
        return None

    def _prewarm(self, spec: Spec, image: str) -> UnassignedContainer:
        return self._blanks.make(
            spec,
            image,
            lambda cell: mount_placeholders(self._dressed_in(cell, sample.dummy_admission(), spec)),
        )

    def _dressed_in(self, cell: NetworkCell, admission: Admission, spec: Spec) -> Provisions:
        return canary_planting.provision_with_canaries(
            self._dress, admission, ProxyEndpoint(cell.door_address, PROXY_PORT), spec
        )

    def _provision(self, sandbox: _DockerSandbox, admission: Admission) -> Provisions:
        return self._dressed_in(sandbox.cell, admission, sandbox.spec)

    # Inside

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
    """How a sandbox is: one that was not started has no processes that anybody should know of."""
    if condition is not None and condition.is_alive and not box.is_started:
        return replace(condition, state="created")
    return condition


def _state_error(name: str, condition: ContainerState) -> SandboxError:
    if not condition.is_alive and condition.state != "created":
        return death_error(name, condition)
    return unfit(name, condition.state)
