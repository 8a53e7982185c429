"""Sandboxes as Docker containers, each behind its own door, without any other way out.

This module combines the parts; each part has its own module. A sandbox is created in this order, and any
failure undoes the steps before it:

    admitted by the proxy -> an unassigned container (network, door, container), ready or new -> its
    files and canaries -> its ports handed over -> its name

The proxy may end at any time. Its ports are then unserved, and a returning proxy gets the same sockets: the
sandbox notices a pause and a new authority, never another network.
A runtime that keeps its sandboxes records them, and the next one of the same folder takes them over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from msgspec.structs import replace as changed

from egress.logger import EventLogger
from egress.runtime import canary_planting, mount_check
from egress.runtime.docker import container, isolation, labels, names, saved_image
from egress.runtime.docker.container_pool import ContainerPool
from egress.runtime.docker.engine import ContainerGoneError, ContainerState, DockerEngine
from egress.runtime.docker.engine_events import sandbox_events
from egress.runtime.docker.engine_socket import ENGINE_SOCKET
from egress.runtime.docker.kept_record import KeptRecord
from egress.runtime.docker.kept_sandboxes import KeptSandboxes
from egress.runtime.docker.network_cell import NetworkCell, NetworkCellPool
from egress.runtime.docker.process import ContainerTarget, death_error
from egress.runtime.docker.reaper import Clock, reap
from egress.runtime.docker.unassigned_container import (
    UnassignedContainer,
    UnassignedContainerFactory,
    dummy_admission,
    mount_placeholders,
)
from egress.runtime.door.controller import PROXY_PORT, DoorController
from egress.runtime.errors import (
    EngineError,
    SandboxError,
    SandboxExistsError,
    UnsupportedError,
)
from egress.runtime.lifecycle import DoorLifecycle, Status, unfit
from egress.runtime.mounted_files import MountedFiles
from egress.runtime.owner_lock import OwnerLock, own_folder
from egress.runtime.protocol import (
    NO_OUTPUT,
    KeptTerms,
    Output,
    Provisioner,
    Provisions,
    SavedImage,
    TakenOver,
    provision_minimal,
)
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission, Bar, ProxyClient, SandboxListener
from egress.runtime.proxy_monitor import ProxyMonitor
from egress.runtime.spec import Command, Event, ExecResult, Info, Spec, State
from egress.runtime.supervised_process import SupervisedProcess

_log = EventLogger(__name__)

ExpectedSpec = Callable[[DockerEngine], Spec | None]
"""Tells what a sandbox will be like, without name and environment; None if that is not known."""

_MAX_TAKEN_AT_ONCE: Final = 8
_STATE_NAMES: Final[dict[str, State]] = {"created": "created", "running": "running", "paused": "paused"}


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
    kept: KeptRecord | None = None
    """The record by which it outlives this runtime."""
    is_recorded: bool = True

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


class DockerRuntime(DoorLifecycle[_DockerSandbox, SupervisedProcess]):
    """A `Runtime` of the Docker engine on this machine."""

    def __init__(  # noqa: PLR0913 - each parameter is a setting of the runtime
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
        expected: ExpectedSpec | None = None,
        keeps: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """Connect to proxy and engine, and remove what dead runtimes left in `home`.

        `home` is a folder for files of sandboxes, for this user alone; `ready` says how many cells are made
        ahead; `guarded` are folders of the host that are never mounted, such as the proxy's. `runtime` names
        a runtime of the engine, such as `runsc`, and `seccomp` is a seccomp profile: both apply to sandboxes.
        `expected` names the one sandbox that this runtime is for, as far as that is known: its container is
        made while the proxy starts, and nothing is made ahead for others. `keeps`: sandboxes may outlive this
        runtime, with `keep`. By the `clock`, kept ones whose time has passed are removed.
        """
        super().__init__(proxy, provision)
        with ExitStack() as parts:
            self._home = own_folder(home)
            self._engine = DockerEngine(engine)
            parts.callback(self._engine.close)
            self._isolation = isolation.choose_isolation(self._engine, runtime, seccomp)
            self._kept = KeptSandboxes(self._engine, self._home) if keeps else None
            self._sweeps = False
            if self._kept is not None:
                self._lease = parts.enter_context(OwnerLock(self._home, keeps=True))
                self._kept.examine()
                # Runs after everything else has ended.
                parts.callback(self._end_keeping)
            # Leftovers go before our own lease exists: every other lease belongs to another process.
            reap(self._engine, self._home, proxy, clock=clock, holds_kept=keeps)
            if not keeps:
                self._lease = parts.enter_context(OwnerLock(self._home))
            self._cells = NetworkCellPool(
                self._engine, self._home, str(self._lease.path), ready, is_single=expected is not None
            )
            parts.callback(self._cells.close)
            self._factory = UnassignedContainerFactory(
                self._engine,
                self._cells,
                str(self._lease.path),
                (*guarded, self._home, engine),
                self._isolation,
                keeps=keeps,
            )
            self._pool = ContainerPool(self._engine, self._prewarm, is_single=expected is not None)
            parts.callback(self._pool.close)
            if expected is not None:
                self._make_ahead(expected)
            self._lock = threading.Lock()
            self._presence = ProxyMonitor(proxy, self._register.readmit_all)
            parts.callback(self._presence.close)
            self._parts = parts.pop_all()

    def _make_ahead(self, expected: ExpectedSpec) -> None:
        # The caller who creates the sandbox gets the same error, with a name for what is wrong.
        with suppress(SandboxError):
            spec = expected(self._engine)
            if spec is not None:
                self._pool.want(spec, 1)

    @property
    def cautions(self) -> tuple[str, ...]:
        """The gaps that this engine leaves in the isolation, and sandboxes that did not come back."""
        losses = () if self._kept is None else tuple(self._kept.losses)
        return losses + isolation.cautions(self._engine.major, self._engine.version, self._isolation)

    # Lifecycle

    def start(self, name: str) -> Info:
        box = self._register.get(name)
        if box.spec.mounts and not self._condition(box).is_alive:
            # The engine resolves the paths of mounts at each start.
            mount_check.refuse_moved(box.spec.mounts)
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

    def _end(self, sandbox: _DockerSandbox) -> None:
        if self._kept is not None:
            # Together: a change of its record that is under way must not write it anew.
            with self._lock:
                sandbox.kept = None
                self._kept.forget(sandbox.cell)
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
                # An engine may report for a moment that a running container is paused.
                if self._condition(box).state != "running":
                    raise
        elif condition.state != "running":
            raise _state_error(name, condition)

    def prepare(self, spec: Spec, count: int) -> None:
        self._pool.want(spec, count)

    # Images

    def save_image(self, name: str, image: str, max_bytes: int) -> SavedImage:
        box = self._running(name)
        saved_image.check(name, self.planted(name), self._isolation)
        size = saved_image.save(self._engine, box.container, image, max_bytes)
        return SavedImage(size, box.spec.user, box.spec.group)

    def remove_saved_image(self, image: str) -> None:
        saved_image.remove(self._engine, image)

    # Beyond the runtime

    def keep(self, name: str, terms: KeptTerms) -> None:
        box = self._register.get(name)
        box.kept = box.kept or self._keeping.record(box.spec, box.unassigned, box.admission, terms)
        self._record(box, lambda kept: changed(kept, note=terms.note, deadline=terms.deadline))

    def bar(self, name: str, bar: Bar) -> None:
        # A proxy that has just admitted it gives it access, until it is told of the record.
        if not self._register.is_returning(name):
            self._record(self._register.get(name), lambda kept: changed(kept, bar=bar))

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        super().open_ports(name, ports)
        box = self._register.get(name)
        self._record(box, lambda kept: changed(kept, ports=tuple(sorted({*kept.ports, *ports}))))

    def _record(self, box: _DockerSandbox, change: Callable[[KeptRecord], KeptRecord]) -> None:
        with self._lock:
            if box.kept is None or (change(box.kept) == box.kept and box.is_recorded):
                return
            # A record that cannot be written counts here, and is written with the next try.
            box.kept, box.is_recorded = change(box.kept), False
            self._keeping.write(box.kept)
            box.is_recorded = True

    def take_over(self) -> tuple[TakenOver, ...]:
        # In parallel, because each waits for the engine to start a door.
        with ThreadPoolExecutor(_MAX_TAKEN_AT_ONCE) as pool:
            return tuple(filter(None, pool.map(self._take_over_one, self._keeping.records())))

    def leave(self) -> None:
        for name in self._register.names:
            if self._register.get(name).kept is None:
                self.remove(name)
            else:
                with self._register.removing(name) as box:
                    if box is not None:
                        self._proxy.dismiss(name)
                        box.unassigned.leave()
        super().close()

    def close(self) -> None:
        self._sweeps = True
        super().close()

    @property
    def _keeping(self) -> KeptSandboxes:
        if self._kept is None:
            raise UnsupportedError("this runtime keeps no sandboxes", "keep them with `egress up`")
        return self._kept

    def _take_over_one(self, record: KeptRecord) -> TakenOver | None:
        spec, admission = record.spec, record.admission
        found = self._keeping.take_over(
            record, self._cells, self._factory.mounts, lambda cell: self._provision_in(cell, admission, spec)
        )
        if found is None:
            return None
        unassigned, is_started = found
        box = _DockerSandbox(spec, unassigned, unassigned.provisions, admission, is_started, record)
        try:
            self._register.take_over(box)
        except SandboxExistsError as error:
            unassigned.leave()
            _log.error("sandbox.not_taken_over", sandbox=spec.name, cause=error.message)
            return None
        return TakenOver(spec.name, KeptTerms(record.note, record.deadline), record.bar, spec.mounts)

    def _end_keeping(self) -> None:
        # A runtime that fails to start, or that leaves, leaves the sandboxes to the next one.
        if self._sweeps:
            reap(self._engine, self._home, holds_kept=True, spares=False)
        else:
            self._lease.leave()

    # Commands

    def _begin(
        self, sandbox: _DockerSandbox, command: Command, output: Output, *, is_open: bool
    ) -> SupervisedProcess:
        return self._in_container(
            sandbox.spec, sandbox.container, sandbox.provisions, command, output, is_open=is_open
        )

    def _address(self, sandbox: _DockerSandbox) -> str:
        return sandbox.cell.sandbox_address

    def _in_container(
        self, spec: Spec, id_: str, provisions: Provisions, command: Command, output: Output, *, is_open: bool
    ) -> SupervisedProcess:
        user = f"{spec.user}:{spec.group}"
        target = ContainerTarget(
            self._engine, id_, spec.name, user, spec.workdir, container.variables(spec, provisions)
        )
        return SupervisedProcess(target, command, output, is_open=is_open)

    # State

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

    # Creation

    def _maker(self, spec: Spec) -> Callable[[], _DockerSandbox]:
        image = self._engine.image_id(spec.image)
        return lambda: self._make(spec, image)

    def _make(self, spec: Spec, image: str) -> _DockerSandbox:
        # Before the proxy is asked: the proxy records every admission.
        spec = replace(spec, mounts=self._factory.mounts(spec))
        return self._admitted(spec, lambda admission: self._place(spec, image, admission))

    def _place(self, spec: Spec, image: str, admission: Admission) -> _DockerSandbox:
        unassigned = self._take_prewarmed(spec, image, admission) or self._factory.make(
            spec, image, lambda cell: self._provision_in(cell, admission, spec)
        )
        # A ready container was made with its user, before this sandbox was asked for.
        spec = replace(spec, user=unassigned.spec.user, group=unassigned.spec.group)
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
            provisions = self._provision_in(unassigned.cell, admission, spec)
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
        # Before a cell is taken: its network may still be being made.
        admission = dummy_admission()
        return self._factory.make(
            spec, image, lambda cell: mount_placeholders(self._provision_in(cell, admission, spec))
        )

    def _provision_in(self, cell: NetworkCell, admission: Admission, spec: Spec) -> Provisions:
        return canary_planting.provision_with_canaries(
            self._provisioner, admission, ProxyAddress(cell.door_address, PROXY_PORT), spec
        )

    def _provision(self, sandbox: _DockerSandbox, admission: Admission) -> Provisions:
        return self._provision_in(sandbox.cell, admission, sandbox.spec)

    def _renewed(self, sandbox: _DockerSandbox, admission: Admission) -> Iterable[SandboxListener]:
        # A proxy that has just admitted it does not know what another one revoked. No listener is handed over
        # before that.
        if sandbox.kept is not None and sandbox.kept.bar:
            self._proxy.bar(sandbox.spec.name, sandbox.kept.bar)
        return super()._renewed(sandbox, admission)

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
    return unfit(name, condition.state)
