"""Sandboxes as namespaces: each in a network of its own that has a door in it and no other way out.

This puts the parts in order and takes them apart again; each part is elsewhere. A sandbox is made in this
order, and whatever fails, what was made before is taken away:

    admitted by the proxy -> its files -> control groups -> namespaces with a door -> its ports handed over

The proxy may end at any time. Then nobody serves the door, and when a proxy is there again it gets the same
sockets: the sandbox sees a pause and a new authority, never another network.
"""

from __future__ import annotations

import os
import queue
import secrets
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import structlog

from egress.runtime import mounts, planting, transfer
from egress.runtime.door.keeper import PROXY_PORT, usual
from egress.runtime.errors import (
    GatewayError,
    GatewayRefusedError,
    PortClosedError,
    SandboxDiedError,
    SandboxError,
    SandboxExistsError,
    SandboxNotFoundError,
    SandboxStateError,
)
from egress.runtime.gateway import Gateway
from egress.runtime.lease import Lease
from egress.runtime.namespace import bounds, cautions, ids, images, plan, support, sweep
from egress.runtime.namespace.box import KILLED, Box, Place, made
from egress.runtime.namespace.process import NamespaceProcess
from egress.runtime.presence import Presence
from egress.runtime.protocol import SILENT, Dresser, Entrance, Output, undressed
from egress.runtime.spec import (
    NOTHING,
    Command,
    Event,
    EventKind,
    ExecResult,
    Info,
    Spec,
    Values,
    check_ports,
    check_ready,
)

_log = structlog.get_logger(__name__)

_AT_A_TIME: Final = 8
_LOOPBACK: Final = "127.0.0.1"
_ENTRANCE: Final = Entrance(plan.DOOR, PROXY_PORT)


class NamespaceRuntime:
    """A `Runtime` of the Linux kernel alone."""

    def __init__(
        self, gateway: Gateway, home: Path, dress: Dresser = undressed, *, guarded: tuple[Path, ...] = ()
    ) -> None:
        """Meet the proxy, see whether namespaces can be made, and clear away what was left in `home`.

        `home` is a folder for files of sandboxes, of this user alone; `guarded` are folders of the host that
        are never mounted, such as those of the proxy. Raises `UnsupportedError` where the kernel refuses.
        """
        with ExitStack() as parts:
            support.check()
            self._home = _own_folder(home)
            self._gateway = gateway
            self._dress = dress
            self._guarded = (*guarded, self._home)
            self._status = Path("/proc/self/status").read_text(encoding="utf-8")
            self._uid_map = Path("/proc/self/uid_map").read_text(encoding="ascii")
            sweep.sweep(self._home, gateway)
            self._lease = parts.enter_context(Lease(self._home))
            self._hierarchies = bounds.of_machine()
            self._boxes: dict[str, Box] = {}
            self._busy: set[str] = set()
            """Names of those that are being made, or taken away."""
            self._lock = threading.RLock()
            self._returns = 0
            self._listeners: set[queue.SimpleQueue[Event | None]] = set()
            self._presence = Presence(gateway, self._returned)
            parts.callback(self._presence.close)
            self._parts = parts.pop_all()

    @property
    def cautions(self) -> tuple[str, ...]:
        """What this runtime does not keep a sandbox from, for its operator; the first is of all of them."""
        bounded = bounds.probe(self._hierarchies)
        return cautions.told(bounded, has_rights=ids.has_rights(self._status), is_root=os.geteuid() == 0)

    # Coming and going

    def create(self, spec: Spec) -> Info:
        image = images.folder(spec.image, self._guarded)
        with self._lock:
            if spec.name in self._boxes or spec.name in self._busy:
                raise SandboxExistsError(
                    f"there is a sandbox {spec.name} already", "remove it first, or take another name"
                )
            self._busy.add(spec.name)
        with self._while_busy(spec.name):
            returns = self._returns
            box = self._made(spec, image)
            with self._lock:
                self._boxes[spec.name] = box
                was_missed = returns != self._returns
        if was_missed:
            self._readmit(box)
        self._tell("created", spec.name)
        return self.info(spec.name)

    def start(self, name: str) -> Info:
        box = self._box(name)
        with box.using:
            if box.state in ("created", "stopped"):
                box.space.start()
                self._plant(box)
                box.state = "running"
                self._tell("started", name)
                if not box.space.first:
                    # It was shorter than its beginning.
                    self._is_over(box)
        return self.info(name)

    def _plant(self, box: Box) -> None:
        """Before anybody else runs anything there. Raises `SandboxError`: then nobody does."""
        try:
            planting.plant(
                lambda command: self._in_space(box, command, SILENT, is_open=False).wait(),
                box.spec,
                box.outfit,
                again=box.state == "stopped",
            )
        except BaseException:
            box.end()
            raise

    def stop(self, name: str) -> None:
        box = self._box(name)
        with box.using:
            if self._is_over(box):
                box.end()

    def remove(self, name: str) -> None:
        with self._lock:
            box = self._boxes.pop(name, None)
            if box is None:
                return
            self._busy.add(name)
        with self._while_busy(name):
            self._gateway.dismiss(name)
            # First of all: from then on nothing comes out of it.
            box.keeper.close()
            with box.using:
                self._is_over(box)
            box.parts.close()
        self._tell("removed", name)

    def pause(self, name: str) -> None:
        self._switch(name, is_paused=True)

    def resume(self, name: str) -> None:
        self._switch(name, is_paused=False)

    def prepare(self, spec: Spec, count: int) -> None:
        """Nothing is kept ready, only looked at: a sandbox is made in less time than one is missed."""
        check_ready(count)
        images.folder(spec.image, self._guarded)

    def close(self) -> None:
        with self._lock:
            names = list(self._boxes)
        try:
            with ThreadPoolExecutor(_AT_A_TIME) as pool:
                list(pool.map(self.remove, names))
        finally:
            self._parts.close()
            for listener in list(self._listeners):
                listener.put(None)

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        check_ports(ports)
        box = self._box(name)
        opened = box.keeper.open(usual(ports))
        self._gateway.hand_over(name, opened)

    def _switch(self, name: str, *, is_paused: bool) -> None:
        box = self._box(name)
        with box.using:
            if box.state == ("paused" if is_paused else "running"):
                return
            if box.state not in ("running", "paused"):
                raise _unfit(name, box.state)
            box.pause(is_paused=is_paused)
            box.state = "paused" if is_paused else "running"
            self._tell("paused" if is_paused else "resumed", name)

    def _is_over(self, box: Box) -> bool:
        """Note that its processes are at their end; returns whether they were not before."""
        with self._lock:
            was_alive = box.state in ("running", "paused")
            if was_alive:
                box.state = "stopped"
        if was_alive:
            self._tell("died", box.spec.name)
        return was_alive

    # Commands

    def spawn(self, name: str, command: Command, output: Output = SILENT) -> NamespaceProcess:
        return self._begun(name, command, output, is_open=command.input is None)

    def exec(self, name: str, command: Command, output: Output = SILENT) -> ExecResult:
        return self._begun(name, command, output, is_open=False).wait()

    def dial(self, name: str, port: int) -> socket.socket:
        check_ports((port,))
        sock = self._running(name).keeper.dial(_LOOPBACK, port)
        # Where nobody listens a connection can meet itself: its own port may be the one that it dials.
        if sock.getsockname() == sock.getpeername():
            sock.close()
            raise PortClosedError(
                f"nothing listens on port {port} of the sandbox {name}", "start what is to listen first"
            )
        sock.settimeout(None)
        return sock

    def _running(self, name: str) -> Box:
        box = self._box(name)
        if box.state != "running":
            raise _unfit(name, box.state)
        return box

    def _begun(self, name: str, command: Command, output: Output, *, is_open: bool) -> NamespaceProcess:
        return self._in_space(self._running(name), command, output, is_open=is_open)

    def _in_space(self, box: Box, command: Command, output: Output, *, is_open: bool) -> NamespaceProcess:
        spec, variables = box.spec, plan.variables(box.spec, box.outfit)
        return NamespaceProcess(
            spec.name, spec.workdir, variables, command, output, box.space.spawn, is_open=is_open
        )

    # Files

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        transfer.put(partial(self.exec, name), name, path, archive)

    @contextmanager
    def get(self, name: str, path: str) -> Iterator[BinaryIO]:
        with transfer.get(partial(self.exec, name), name, path) as file:
            yield file

    # Looking

    def info(self, name: str) -> Info:
        box = self._box(name)
        return Info(
            name=name,
            image=box.spec.image,
            state=box.state,
            profile=box.spec.profile,
            labels=box.spec.labels,
            created=box.created,
            exit_code=KILLED if box.state == "stopped" else None,
        )

    def list(self, labels: Values = NOTHING) -> tuple[Info, ...]:
        with self._lock:
            boxes = sorted(self._boxes.items())
        found = []
        for name, box in boxes:
            if labels.items() <= box.spec.labels.items():
                # It may go meanwhile.
                with suppress(SandboxNotFoundError):
                    found.append(self.info(name))
        return tuple(found)

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

    # Making

    def _made(self, spec: Spec, image: Path | None) -> Box:
        bound = mounts.checked(spec.mounts, self._guarded, plan.OURS)
        who = ids.choose(self._status, self._uid_map, secrets.randbits(32))
        place = Place(self._home, str(self._lease.path), self._hierarchies)
        admission = self._gateway.admit(spec.name, spec.profile)
        try:
            outfit = planting.dressed(self._dress, admission, _ENTRANCE, spec)
            taken = (*plan.OURS, outfit.folder, *outfit.overmounts)
            bound = mounts.checked(bound, self._guarded, taken)
            box = made(spec, place, image, bound, outfit, who, lambda: self._died(spec.name))
            box.admission = admission
            with ExitStack() as undo:
                undo.callback(box.parts.close)
                box.keeper.open(usual(spec.ports))
                self._gateway.hand_over(spec.name, box.keeper.listeners)
                undo.pop_all()
        except BaseException:
            self._gateway.dismiss(spec.name)
            raise
        return box

    def _died(self, name: str) -> None:
        """Its processes have ended, asked for or not."""
        with self._lock:
            box = self._boxes.get(name)
        if box is not None:
            self._is_over(box)

    @contextmanager
    def _while_busy(self, name: str) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(name)

    # A proxy that has returned

    def _returned(self) -> None:
        with self._lock:
            self._returns += 1
            boxes = list(self._boxes.values())
        for box in boxes:
            self._readmit(box)

    def _readmit(self, box: Box) -> None:
        """Have a new proxy serve a sandbox of the old one. Raises `GatewayError` where it is gone again.

        One that the new proxy does not take stays without any network.
        """
        name = box.spec.name
        try:
            self._admit_again(box)
        except SandboxExistsError:
            _log.info("sandbox.known", sandbox=name)
        except GatewayError as error:
            if not isinstance(error, GatewayRefusedError):
                raise
            _log.error("sandbox.not_readmitted", sandbox=name, error=error.message, hint=error.hint)
        except (SandboxError, OSError) as error:
            _log.error("sandbox.not_readmitted", sandbox=name, error=str(error))
        else:
            _log.info("sandbox.readmitted", sandbox=name)

    def _admit_again(self, box: Box) -> None:
        name = box.spec.name
        admission = self._gateway.admit(name, box.spec.profile, box.admission.seed)
        admission = replace(admission, canaries=box.admission.canaries)
        try:
            outfit = planting.dressed(self._dress, admission, _ENTRANCE, box.spec)
            # Before anybody answers with the new authority.
            box.laid.renew(outfit)
            box.outfit = outfit
            self._gateway.hand_over(name, box.keeper.listeners)
        except BaseException:
            self._gateway.dismiss(name)
            raise

    def _box(self, name: str) -> Box:
        with self._lock:
            box = self._boxes.get(name)
        if box is None:
            raise SandboxNotFoundError(f"there is no sandbox {name}", "create it first")
        return box


def _unfit(name: str, state: str) -> SandboxError:
    if state == "stopped":
        return SandboxDiedError(f"the sandbox {name} has ended", "start it again, or remove it")
    cure = "resume it" if state == "paused" else "start it"
    return SandboxStateError(f"the sandbox {name} is {state}", cure)


def _own_folder(home: Path) -> Path:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    return home.resolve()
