"""Sandboxes as namespaces, each in its own network with a door, without any other way out.

This module combines the parts; each part has its own module. A sandbox is created in this order, and any
failure undoes the steps before it:

    admitted by the proxy -> its files -> control groups -> namespaces with a door -> its ports handed over

The proxy may end at any time. Its ports are then unserved, and a returning proxy gets the same sockets: the
sandbox notices a pause and a new authority, never another network.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from egress.runtime import canary_planting, mount_check
from egress.runtime.door.controller import PROXY_PORT, default_ports
from egress.runtime.lifecycle import DoorLifecycle, Status, unfit
from egress.runtime.namespace import (
    cgroups,
    image_folder,
    kernel_support,
    reaper,
    sandbox_contents,
    user_mapping,
)
from egress.runtime.namespace.process import NamespaceProcess
from egress.runtime.namespace.sandbox import KILLED_STATUS, NamespaceSandbox, SandboxPlacement, make_sandbox
from egress.runtime.owner_lock import OwnerLock, own_folder
from egress.runtime.protocol import NO_OUTPUT, Output, Provisioner, Provisions, provision_minimal
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission, ProxyClient
from egress.runtime.proxy_monitor import ProxyMonitor
from egress.runtime.spec import (
    Command,
    Info,
    Spec,
    check_ready_count,
)

_LOOPBACK_ADDRESS: Final = "127.0.0.1"
_PROXY_ADDRESS: Final = ProxyAddress(sandbox_contents.DOOR_ADDRESS, PROXY_PORT)


class NamespaceRuntime(DoorLifecycle[NamespaceSandbox, NamespaceProcess]):
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
        super().__init__(proxy, provision)
        with ExitStack() as parts:
            kernel_support.check()
            self._home = own_folder(home)
            self._guarded = (*guarded, self._home)
            self._own_status = Path("/proc/self/status").read_text(encoding="utf-8")
            self._uid_map = Path("/proc/self/uid_map").read_text(encoding="ascii")
            reaper.reap(self._home, proxy)
            self._lease = parts.enter_context(OwnerLock(self._home))
            self._hierarchies = cgroups.find_hierarchies()
            self._lock = threading.Lock()
            self._presence = ProxyMonitor(proxy, self._register.readmit_all)
            parts.callback(self._presence.close)
            self._parts = parts.pop_all()

    @property
    def cautions(self) -> tuple[str, ...]:
        """The gaps in the isolation, for the operator; the first applies to every sandbox."""
        bounded = cgroups.probe(self._hierarchies)
        return kernel_support.list_cautions(
            bounded, has_rights=user_mapping.has_rights(self._own_status), is_root=os.geteuid() == 0
        )

    # Lifecycle

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
                lambda command: self._begin(box, command, NO_OUTPUT, is_open=False).wait(),
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

    def _end(self, sandbox: NamespaceSandbox) -> None:
        # The door closes first: from here on no traffic leaves the sandbox.
        sandbox.door_controller.close()
        with sandbox.using:
            self._is_over(sandbox)
        sandbox.parts.close()

    def pause(self, name: str) -> None:
        self._switch(name, is_paused=True)

    def resume(self, name: str) -> None:
        self._switch(name, is_paused=False)

    def prepare(self, spec: Spec, count: int) -> None:
        """Only check the arguments: creating a sandbox is fast enough without a reserve."""
        check_ready_count(count)
        image_folder.image_root(spec.image, self._guarded)

    def _switch(self, name: str, *, is_paused: bool) -> None:
        box = self._register.get(name)
        with box.using:
            if box.state == ("paused" if is_paused else "running"):
                return
            if box.state not in ("running", "paused"):
                raise unfit(name, box.state)
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

    def _address(self, sandbox: NamespaceSandbox) -> str:  # noqa: ARG002 - it has the network of its door
        return _LOOPBACK_ADDRESS

    def _running(self, name: str) -> NamespaceSandbox:
        box = self._register.get(name)
        if box.state != "running":
            raise unfit(name, box.state)
        return box

    def _begin(
        self, sandbox: NamespaceSandbox, command: Command, output: Output, *, is_open: bool
    ) -> NamespaceProcess:
        spec, variables = sandbox.spec, sandbox_contents.variables(sandbox.spec, sandbox.provisions)
        return NamespaceProcess(
            spec.name, spec.workdir, variables, command, output, sandbox.launcher.spawn, is_open=is_open
        )

    def _status(self, sandbox: NamespaceSandbox) -> Status:
        return Status(sandbox.state, sandbox.created, KILLED_STATUS if sandbox.state == "stopped" else None)

    # Creation

    def _maker(self, spec: Spec) -> Callable[[], NamespaceSandbox]:
        image = image_folder.image_root(spec.image, self._guarded)
        return lambda: self._make(spec, image)

    def _make(self, spec: Spec, image: Path | None) -> NamespaceSandbox:
        # Everything that can fail without the proxy comes first: the proxy records every admission.
        bound = mount_check.check_mounts(spec.mounts, self._guarded, sandbox_contents.RESERVED_PATHS)
        who = user_mapping.choose_mapping(self._own_status, self._uid_map, secrets.randbits(32))
        place = SandboxPlacement(self._home, str(self._lease.path), self._hierarchies)

        def make(admission: Admission) -> NamespaceSandbox:
            provisions = canary_planting.provision_with_canaries(
                self._provisioner, admission, _PROXY_ADDRESS, spec
            )
            taken = (*sandbox_contents.RESERVED_PATHS, provisions.folder, *provisions.overmounts)
            unmoved = mount_check.check_mounts(bound, self._guarded, taken)
            box = make_sandbox(spec, place, image, unmoved, provisions, who, lambda: self._died(spec.name))
            box.admission = admission
            with ExitStack() as undo:
                undo.callback(box.parts.close)
                box.door_controller.open(default_ports(spec.ports))
                self._proxy.hand_over(spec.name, box.door_controller.listeners)
                undo.pop_all()
            return box

        return self._admitted(spec, make)

    def _died(self, name: str) -> None:
        """Called when init has ended, expected or not."""
        box = self._register.find(name)
        if box is not None:
            self._is_over(box)

    def _provision(self, sandbox: NamespaceSandbox, admission: Admission) -> Provisions:
        return canary_planting.provision_with_canaries(
            self._provisioner, admission, _PROXY_ADDRESS, sandbox.spec
        )
