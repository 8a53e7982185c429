"""The launcher of a sandbox: makes its namespaces, runs its door, and starts its init process.

It reads the plan from standard input, and reports on its line to the runtime whether it succeeded. From then
on it serves two lines: that of the door's controller, and that of the runtime, which sends `start` with a
control line to start an init process. It reports the end of each init process. When the runtime hangs up, it
kills the init process and exits, and the network ends with it.
"""

from __future__ import annotations

import codecs
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Final

from egress.runtime.door import socket_opener as door
from egress.runtime.namespace.inside import network, root_mounts, system_calls, user_namespaces
from egress.runtime.namespace.inside import syscall_filter as calls
from egress.runtime.namespace.inside.command import MAX_MESSAGE_BYTES, Confinement
from egress.runtime.namespace.inside.init import InitProcess
from egress.unix.descriptors import receive

_MOUNT_NAMESPACE_FLAG, _NETWORK_NAMESPACE_FLAG = 0x00020000, 0x40000000
_RUN_NAMESPACE_FLAGS: Final = 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | _MOUNT_NAMESPACE_FLAG
"""Cgroup, UTS, IPC, PID and mount namespaces, new for each run."""
_PRELOADED_ENCODINGS: Final = ("ascii", "utf-8", "latin-1", "unicode_escape", "idna")

Plan = dict[str, object]


class Launcher:
    """A sandbox, from its namespaces to their end."""

    def __init__(self, plan: Plan, runtime: socket.socket) -> None:
        self._plan = plan
        self._runtime = runtime
        self._first = 0
        self._stage = "control groups"
        self._freezer = -1
        self._life, self._lives = os.pipe()

    def run(self) -> None:
        """Make the sandbox, and serve until the runtime hangs up."""
        try:
            self._make()
        except (OSError, KeyError) as error:
            number = error.errno if isinstance(error, OSError) else 0
            place = str(error.filename or "") if isinstance(error, OSError) else str(error)
            self._tell({"failed": self._stage, "errno": number, "path": place})
            return
        self._tell({"made": True, "freezer": self._freezer >= 0})
        self._serve()

    # Files of the host (groups, mount sources) are opened first: inside the namespaces the rights for it are
    # gone.
    def _make(self) -> None:
        plan = self._plan
        self._controller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._controller.connect(str(plan["controller"]))
        for path in _strings(plan["groups"]):
            system_calls.write(path, "0")
        if freezer := str(plan["freezer"]):
            self._freezer = os.open(freezer, os.O_WRONLY | os.O_CLOEXEC)
        sources, steps = plan["sources"], plan["steps"]
        if not isinstance(sources, list) or not isinstance(steps, list):
            raise KeyError("sources")
        # With privileges the trees are cloned before the user namespace; without, only its root may clone
        # them.
        has_rights = bool(plan["maps"])
        self._stage = "mounts"
        trees = root_mounts.HostTrees(sources) if has_rights else None
        self._stage = "namespaces"
        user_namespaces.enter(_MOUNT_NAMESPACE_FLAG | _NETWORK_NAMESPACE_FLAG, _strings(plan["maps"]))
        self._stage = "network"
        network.prepare(str(plan["address"]))
        self._stage = "mounts"
        root_mounts.build(trees or root_mounts.HostTrees(sources), steps)

    def _serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        wake, told = os.pipe()
        for each in (wake, told):
            os.set_blocking(each, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        poll = select.poll()
        for watched in (self._controller.fileno(), self._runtime.fileno(), wake):
            poll.register(watched, select.POLLIN)
        with self._controller.makefile("r", encoding="ascii", newline="\n") as lines:
            while True:
                ready = {number for number, _ in poll.poll()}
                if wake in ready:
                    with suppress(BlockingIOError):
                        os.read(wake, MAX_MESSAGE_BYTES)
                    self._reap()
                if self._runtime.fileno() in ready and not self._obey():
                    break
                # The controller waits for each answer before its next request, so no line stays in the
                # buffer.
                if self._controller.fileno() in ready:
                    line = lines.readline(door.MAX_LINE_BYTES)
                    if not line:
                        break
                    door.obey(self._controller, line)
        self._end()

    # The init process

    def _obey(self) -> bool:
        message, descriptors = receive(self._runtime, MAX_MESSAGE_BYTES, 4)
        if message == b"start" and descriptors:
            self._begin(socket.socket(fileno=descriptors[0]))
        elif message == b"end":
            self._end()
            self._tell({"ended": 0})
        return bool(message)

    def _begin(self, control: socket.socket) -> None:
        """Start init through an intermediate process: only its children enter the new PID namespace."""
        hears, tells = os.pipe()
        between = os.fork()
        if between == 0:
            self._become_init(control, tells)
        control.close()
        os.close(tells)
        self._first = int.from_bytes(os.read(hears, 4), "big")
        os.close(hears)
        _, status = os.waitpid(between, 0)
        self._tell({"begun": self._first} if self._first else {"ended": status})

    def _become_init(self, control: socket.socket, tells: int) -> None:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # The new PID namespace applies to children only, so init is forked after it.
            os.unshare(_RUN_NAMESPACE_FLAGS)
            number = os.fork()
            if number:
                os.write(tells, number.to_bytes(4, "big"))
                os._exit(0)
            os.close(tells)
            self._run_init(control)
        except OSError as error:
            with suppress(OSError):
                control.send(json.dumps({"errno": error.errno}).encode())
        finally:
            os._exit(1)

    def _run_init(self, control: socket.socket) -> None:
        for each in (self._controller, self._runtime):
            each.close()
        os.close(self._lives)
        # Each run has its own disks, /proc and terminals; the inner user namespace comes last, and owns
        # nothing.
        plan = self._plan
        socket.sethostname(str(plan["hostname"]))
        disks = plan["disks"]
        if isinstance(disks, list):
            root_mounts.add_disks(disks, _number(plan["outer"]))
        root_mounts.complete(str(plan["shared"]))
        inner = user_namespaces.InnerUser(
            _number(plan["user"]), _number(plan["group"]), _number(plan["outer"])
        )
        namespace = user_namespaces.inner(inner)
        freezer = user_namespaces.checked_freezer(self._freezer)
        root_mounts.close()
        bounds = plan["bounds"]
        confinement = Confinement(
            users=namespace,
            user=inner.user,
            group=inner.group,
            terminal_owner=inner.outer,
            freezer=freezer,
            bounds=bounds if isinstance(bounds, dict) else {},
            filter=calls.filter_program(os.uname().machine),
        )
        InitProcess(confinement, control, self._life).run()

    def _reap(self) -> None:
        for number, status in system_calls.reaped():
            if number == self._first:
                self._first = 0
                self._tell({"ended": status})

    def _end(self) -> None:
        if self._first:
            with suppress(OSError):
                os.kill(self._first, signal.SIGKILL)
                os.waitpid(self._first, 0)
            self._first = 0

    def _tell(self, what: dict[str, object]) -> None:
        with suppress(OSError):
            self._runtime.send(json.dumps(what).encode())


def _strings(found: object) -> list[str]:
    return [str(each) for each in found] if isinstance(found, list) else []


def _number(found: object) -> int:
    return int(str(found))


def main(line: int) -> None:
    """Execute the plan on standard input, for the runtime at this descriptor."""
    os.set_inheritable(line, False)  # noqa: FBT003 - the parameter is positional only
    for name in _PRELOADED_ENCODINGS:
        # Python imports codecs at first use, and no library will be reachable then.
        codecs.lookup(name)
    plan = json.loads(sys.stdin.buffer.read())
    system_calls.be_reaper()
    Launcher(plan, socket.socket(fileno=line)).run()
