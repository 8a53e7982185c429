"""Sandboxes as containers: each behind a door of its own, and none with another way out.

This puts the parts in order and takes them apart again; each part is elsewhere. A sandbox is made in this
order, and whatever fails, what was made before is taken away:

    admitted by the proxy -> a blank (network, door, container), made ahead or now -> its files -> its ports
    handed over -> its name

The proxy may end at any time. Then nobody serves the door, and when a proxy is there again it gets the same
sockets: the sandbox sees a pause and a new authority, never another network.
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

from egress.runtime import mounts, planting, transfer
from egress.runtime.docker import container, isolation, labels, names, sample
from egress.runtime.docker.blanks import Blank, Blanks, unworn
from egress.runtime.docker.cells import Cell, Cells
from egress.runtime.docker.engine import SOCKET, Condition, Engine, GoneError
from egress.runtime.docker.happenings import happenings
from egress.runtime.docker.pool import Pool
from egress.runtime.docker.process import Begun, DockerProcess, ended
from egress.runtime.docker.reaper import reap
from egress.runtime.door.keeper import PROXY_PORT, Keeper, usual
from egress.runtime.errors import (
    EngineError,
    SandboxError,
    SandboxStateError,
)
from egress.runtime.gateway import Admission, Gateway
from egress.runtime.laid import Laid
from egress.runtime.lease import Lease, own_folder
from egress.runtime.presence import Presence
from egress.runtime.protocol import SILENT, Dresser, Entrance, Outfit, Output, undressed
from egress.runtime.register import Register
from egress.runtime.spec import (
    NOTHING,
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

_STATES: Final[dict[str, State]] = {"created": "created", "running": "running", "paused": "paused"}
_AT_A_TIME: Final = 8


@dataclass(slots=True)
class _Box:
    """One sandbox."""

    spec: Spec
    blank: Blank
    """What it began as."""
    outfit: Outfit
    admission: Admission
    """The one it was made by: what is planted in it stays when another proxy admits it."""
    is_started: bool = False
    """As somebody's: its container runs before."""

    @property
    def cell(self) -> Cell:
        return self.blank.cell

    @property
    def container(self) -> str:
        return self.blank.container

    @property
    def laid(self) -> Laid:
        return self.blank.laid

    @property
    def keeper(self) -> Keeper:
        return self.cell.keeper


class DockerRuntime:
    """A `Runtime` of the Docker engine on this machine."""

    def __init__(
        self,
        gateway: Gateway,
        home: Path,
        dress: Dresser = undressed,
        *,
        engine: Path = SOCKET,
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
        with ExitStack() as parts:
            self._home = own_folder(home)
            self._gateway = gateway
            self._dress = dress
            self._engine = Engine(engine)
            parts.callback(self._engine.close)
            self._isolation = isolation.asked_for(self._engine, runtime, seccomp)
            reap(self._engine, self._home, gateway)
            self._lease = parts.enter_context(Lease(self._home))
            self._cells = Cells(self._engine, self._home, str(self._lease.path), ready)
            parts.callback(self._cells.close)
            self._blanks = Blanks(
                self._engine,
                self._cells,
                str(self._lease.path),
                (*guarded, self._home, engine),
                self._isolation,
            )
            self._pool = Pool(self._engine, self._made_ahead)
            parts.callback(self._pool.close)
            self._register = Register[_Box](gateway, self._dressed_again)
            self._lock = threading.Lock()
            self._presence = Presence(gateway, self._register.returned)
            parts.callback(self._presence.close)
            self._parts = parts.pop_all()

    @property
    def cautions(self) -> tuple[str, ...]:
        """What this engine does not keep a sandbox from, for its operator."""
        return isolation.cautions(self._engine.major, self._engine.version, self._isolation)

    # Coming and going

    def create(self, spec: Spec) -> Info:
        image = self._engine.image_id(spec.image)
        self._register.add(spec.name, lambda: self._made(spec, image))
        return self.info(spec.name)

    def start(self, name: str) -> Info:
        box = self._register.get(name)
        if box.spec.mounts and not self._condition(box).is_alive:
            # The engine follows their paths again.
            mounts.refuse_moved(box.spec.mounts)
        try:
            was_alive = not box.outfit.planted or self._condition(box).is_alive
            # Nothing happens where it runs already.
            self._engine.start_container(box.container)
            with self._lock:
                is_first, box.is_started = not box.is_started, True
            if is_first:
                self._engine.rename_container(box.container, names.started(name, box.cell.id))
            if not was_alive:
                self._plant_again(box)
        except GoneError:
            raise ended(name, None) from None
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
        with self._register.leaving(name) as box:
            if box is None:
                return
            self._gateway.dismiss(name)
            box.cell.end_network()
            box.blank.close()

    def pause(self, name: str) -> None:
        box = self._register.get(name)
        condition = self._condition(box)
        if condition.state == "running":
            self._engine.pause_container(box.container)
        elif condition.state != "paused":
            raise _unfit(name, condition)

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
            raise _unfit(name, condition)

    def close(self) -> None:
        try:
            with ThreadPoolExecutor(_AT_A_TIME) as pool:
                list(pool.map(self.remove, self._register.names))
        finally:
            self._parts.close()

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        check_ports(ports)
        box = self._register.get(name)
        opened = box.cell.keeper.open(usual(ports))
        self._gateway.hand_over(name, opened)

    def prepare(self, spec: Spec, count: int) -> None:
        self._pool.want(spec, count)

    def dial(self, name: str, port: int) -> socket.socket:
        check_ports((port,))
        box = self._running(name)
        sock = box.cell.keeper.dial(box.cell.sandbox, port)
        sock.settimeout(None)
        return sock

    # Commands

    def spawn(self, name: str, command: Command, output: Output = SILENT) -> DockerProcess:
        return self._begun(name, command, output, is_open=command.input is None)

    def exec(self, name: str, command: Command, output: Output = SILENT) -> ExecResult:
        return self._begun(name, command, output, is_open=False).wait()

    def _begun(self, name: str, command: Command, output: Output, *, is_open: bool) -> DockerProcess:
        box = self._running(name)
        return self._in_container(box.spec, box.container, box.outfit, command, output, is_open=is_open)

    def _in_container(
        self, spec: Spec, id_: str, outfit: Outfit, command: Command, output: Output, *, is_open: bool
    ) -> DockerProcess:
        user = f"{spec.user}:{spec.group}"
        begun = Begun(self._engine, id_, spec.name, user, spec.workdir, container.variables(spec, outfit))
        return DockerProcess(begun, command, output, is_open=is_open)

    # Files

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        transfer.put(lambda command, output: self.exec(name, command, output), name, path, archive)

    def get(self, name: str, path: str) -> AbstractContextManager[BinaryIO]:
        return transfer.get(lambda command, output: self.exec(name, command, output), name, path)

    # Looking

    def info(self, name: str) -> Info:
        box = self._register.get(name)
        condition = _as_told(box, self._engine.condition(box.container))
        state = _STATES.get(condition.state, "stopped") if condition else "stopped"
        return Info(
            name=name,
            image=box.spec.image,
            state=state,
            profile=box.spec.profile,
            labels=box.spec.labels,
            created=condition.created if condition else None,
            exit_code=condition.exit_code if condition and state == "stopped" else None,
        )

    def list(self, labels: Values = NOTHING) -> tuple[Info, ...]:
        return self._register.told(labels, self.info)

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        wanted = (f"{labels.ROLE}={labels.ROLE_SANDBOX}", f"{labels.LEASE}={self._lease.path}")
        with self._engine.events(*wanted) as stream:
            yield happenings(stream)

    # Making

    def _made(self, spec: Spec, image: str) -> _Box:
        # Before the proxy is asked: it would record that one came and went.
        spec = replace(spec, mounts=self._blanks.mounts(spec))
        admission = self._gateway.admit(spec.name, spec.profile)
        try:
            return self._placed(spec, image, admission)
        except BaseException:
            self._gateway.dismiss(spec.name)
            raise

    def _placed(self, spec: Spec, image: str, admission: Admission) -> _Box:
        blank = self._taken(spec, image, admission) or self._blanks.made(
            spec, image, lambda cell: self._dressed(admission, cell, spec)
        )
        try:
            self._plant(spec, blank.container, blank.outfit)
            self._gateway.hand_over(spec.name, blank.cell.keeper.listeners)
            self._engine.rename_container(blank.container, names.taken(spec.name, blank.cell.id))
        except BaseException:
            blank.close()
            raise
        return _Box(spec, blank, blank.outfit, admission)

    def _plant(self, spec: Spec, container_id: str, outfit: Outfit, *, again: bool = False) -> None:
        def run(command: Command) -> ExecResult:
            return self._in_container(spec, container_id, outfit, command, SILENT, is_open=False).wait()

        try:
            planting.plant(run, spec, outfit, again=again)
        except EngineError:
            condition = self._engine.condition(container_id)
            if condition is not None and condition.is_alive:
                raise
            # Its own first process is a shell too.
            raise ended(spec.name, condition) from None

    def _plant_again(self, box: _Box) -> None:
        """What lay in memory went with its end. Where it cannot be there again, nothing runs."""
        try:
            self._plant(box.spec, box.container, box.outfit, again=True)
        except BaseException:
            self._engine.stop_container(box.container, grace=0)
            raise

    def _taken(self, spec: Spec, image: str, admission: Admission) -> Blank | None:
        """One that was made ahead, dressed; None where there is none, or none that fits."""
        blank = self._pool.take(spec, image)
        if blank is None:
            return None
        try:
            outfit = self._dressed(admission, blank.cell, spec)
            if blank.fits(outfit):
                blank.laid.renew(outfit)
                blank.outfit = outfit
                return blank
        except BaseException:
            blank.close()
            raise
        blank.close()
        return None

    def _made_ahead(self, spec: Spec, image: str) -> Blank:
        return self._blanks.made(
            spec, image, lambda cell: unworn(self._dressed(sample.admission(), cell, spec))
        )

    def _dressed(self, admission: Admission, cell: Cell, spec: Spec) -> Outfit:
        return planting.dressed(self._dress, admission, Entrance(cell.door, PROXY_PORT), spec)

    def _dressed_again(self, box: _Box, admission: Admission) -> Outfit:
        return self._dressed(admission, box.cell, box.spec)

    # Inside

    def _running(self, name: str) -> _Box:
        box = self._register.get(name)
        condition = self._condition(box)
        if condition.state != "running":
            raise _unfit(name, condition)
        return box

    def _condition(self, box: _Box) -> Condition:
        found = _as_told(box, self._engine.condition(box.container))
        if found is None:
            raise ended(box.spec.name, None)
        return found


def _as_told(box: _Box, condition: Condition | None) -> Condition | None:
    """How a sandbox is: one that was not started has no processes that anybody should know of."""
    if condition is not None and condition.is_alive and not box.is_started:
        return replace(condition, state="created")
    return condition


def _unfit(name: str, condition: Condition) -> SandboxError:
    if not condition.is_alive and condition.state != "created":
        return ended(name, condition)
    cure = "resume it" if condition.state == "paused" else "start it"
    return SandboxStateError(f"the sandbox {name} is {condition.state}", cure)
