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
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import structlog

from egress.runtime import mounts, planting, transfer
from egress.runtime.door.keeper import PROXY_PORT, usual
from egress.runtime.errors import (
    PortClosedError,
    SandboxDiedError,
    SandboxError,
    SandboxStateError,
)
from egress.runtime.gateway import Admission, Gateway
from egress.runtime.lease import Lease, own_folder
from egress.runtime.namespace import bounds, cautions, ids, images, plan, support, sweep
from egress.runtime.namespace.box import KILLED, Box, Place, made
from egress.runtime.namespace.process import NamespaceProcess
from egress.runtime.presence import Presence
from egress.runtime.protocol import SILENT, Dresser, Entrance, Outfit, Output, undressed
from egress.runtime.register import Register
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
            self._home = own_folder(home)
            self._gateway = gateway
            self._dress = dress
            self._guarded = (*guarded, self._home)
            self._status = Path("/proc/self/status").read_text(encoding="utf-8")
            self._uid_map = Path("/proc/self/uid_map").read_text(encoding="ascii")
            sweep.sweep(self._home, gateway)
            self._lease = parts.enter_context(Lease(self._home))
            self._hierarchies = bounds.of_machine()
            self._register = Register[Box](gateway, self._dressed)
            self._lock = threading.Lock()
            self._listeners: set[queue.SimpleQueue[Event | None]] = set()
            self._presence = Presence(gateway, self._register.returned)
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
        self._register.add(spec.name, lambda: self._made(spec, image))
        self._tell("created", spec.name)
        return self.info(spec.name)

    def start(self, name: str) -> Info:
        box = self._register.get(name)
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
        box = self._register.get(name)
        with box.using:
            if self._is_over(box):
                box.end()

    def remove(self, name: str) -> None:
        with self._register.leaving(name) as box:
            if box is None:
                return
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
        try:
            with ThreadPoolExecutor(_AT_A_TIME) as pool:
                list(pool.map(self.remove, self._register.names))
        finally:
            self._parts.close()
            for listener in list(self._listeners):
                listener.put(None)

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        check_ports(ports)
        box = self._register.get(name)
        opened = box.keeper.open(usual(ports))
        self._gateway.hand_over(name, opened)

    def _switch(self, name: str, *, is_paused: bool) -> None:
        box = self._register.get(name)
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
        box = self._register.get(name)
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
        box = self._register.get(name)
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
        return self._register.told(labels, self.info)

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
        box = self._register.find(name)
        if box is not None:
            self._is_over(box)

    def _dressed(self, box: Box, admission: Admission) -> Outfit:
        return planting.dressed(self._dress, admission, _ENTRANCE, box.spec)


def _unfit(name: str, state: str) -> SandboxError:
    if state == "stopped":
        return SandboxDiedError(f"the sandbox {name} has ended", "start it again, or remove it")
    cure = "resume it" if state == "paused" else "start it"
    return SandboxStateError(f"the sandbox {name} is {state}", cure)
