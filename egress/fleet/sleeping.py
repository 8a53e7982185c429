"""Sleep: an idle sandbox is stopped, and its next use starts it again.

A sleeping sandbox keeps its files and its place in the fleet. Its processes are gone, and so is what it kept
in memory. Any number of calls may come at once: one of them starts the sandbox, and the others wait for it.
A paused or stopped sandbox does not fall asleep, and a revoked one is not woken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from egress.errors import EgressError
from egress.fleet.member import FleetMember
from egress.logger import EventLogger
from egress.runtime.errors import (
    PortClosedError,
    SandboxDiedError,
    SandboxNotFoundError,
    SandboxStateError,
)
from egress.runtime.lifecycle import unfit
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Info

_log = EventLogger(__name__)

_WAKE_HINT: Final = "wake it first"


class SandboxSleep:
    """Puts the sandboxes of a fleet to sleep, and wakes them."""

    def __init__(
        self,
        runtime: Runtime,
        stop: Callable[[str], None],
        members: Mapping[str, FleetMember],
        changed: threading.Condition,
        exclusive: Callable[[str], AbstractContextManager[None]],
        check: Callable[[], None],
        revoked: Callable[[], Collection[str]],
    ) -> None:
        """`stop` ends the processes of a sandbox. `changed` protects the members.

        `exclusive` excludes other calls that make or end a sandbox. `check` raises while no sandbox can be
        served. `revoked` names the sandboxes whose access is revoked; without its answer no sandbox is woken.
        """
        self._runtime = runtime
        self._stop = stop
        self._members = members
        self._changed = changed
        self._exclusive = exclusive
        self._check = check
        self._revoked = revoked

    def sleep(self, name: str) -> None:
        """Put a sandbox to sleep, whatever runs in it. Does nothing if it is asleep."""
        # Raises for a sandbox that no one knows, before its record is looked for.
        self._runtime.info(name)
        with self._changed:
            member = self._members.get(name)
        if member is None:
            raise SandboxStateError(
                f"the sandbox {name} was not created by this fleet", "stop it instead: stop and start"
            )
        if member.spec.limits.disk_mib is not None:
            raise SandboxStateError(
                f"the limited disk of the sandbox {name} lies in memory: sleep would lose its files",
                "pause it, or save its files and remove it",
            )
        self._fall_asleep(name, member, lambda: True)

    def sleep_idle(self, clock: Callable[[], float]) -> tuple[str, ...]:
        """Put sandboxes to sleep that were idle for long enough, and return their names."""
        now = clock()
        with self._changed:
            found = [(name, member) for name, member in self._members.items() if member.may_sleep(now)]
        return tuple(name for name, member in found if self._doze_off(name, member, clock))

    def wake(self, name: str, member: FleetMember) -> None:
        """Start a sandbox that is asleep. Its caller has counted the call as use, so it stays awake."""
        if self._is_awake(member):
            return
        # Calls that come meanwhile wait here, and find it awake.
        with self._exclusive(name):
            self._refuse_replaced(name, member)
            if self._is_awake(member):
                return
            self._check()
            self._refuse_revoked(name)
            self._runtime.start(name)
            with self._changed:
                member.sleep = "awake"
        _log.info("sandbox.woken", sandbox=name)

    def end(self, name: str, member: FleetMember | None) -> None:
        """Let a sandbox count as stopped: its next use does not wake it."""
        if member is not None and member.sleep != "awake":
            with self._exclusive(name), self._changed:
                member.sleep = "awake"

    def _is_awake(self, member: FleetMember) -> bool:
        with self._changed:
            return member.sleep == "awake"

    def _doze_off(self, name: str, member: FleetMember, clock: Callable[[], float]) -> bool:
        try:
            return self._fall_asleep(name, member, lambda: member.may_sleep(clock()))
        except (SandboxNotFoundError, SandboxStateError, SandboxDiedError):
            # Paused, stopped or not yet started: its processes are as somebody wants them.
            member.unfit_since = member.used
        except EgressError as error:
            # The next tick retries.
            _log.warning("sandbox.not_asleep", sandbox=name, cause=error.message, hint=error.hint)
        return False

    def _fall_asleep(self, name: str, member: FleetMember, may: Callable[[], bool]) -> bool:
        with self._exclusive(name):
            self._refuse_replaced(name, member)
            if member.sleep == "asleep":
                return False
            state = self._runtime.info(name).state
            if state != "running":
                raise unfit(name, state)
            with self._changed:
                # Judged and recorded in one step: a call that comes later finds `falling`, and waits.
                if not may():
                    return False
                member.sleep = "falling"
            try:
                self._stop(name)
            except BaseException:
                with self._changed:
                    member.sleep = "awake"
                raise
            with self._changed:
                member.sleep, member.has_slept = "asleep", True
        _log.info("sandbox.asleep", sandbox=name)
        return True

    def _refuse_replaced(self, name: str, member: FleetMember) -> None:
        """Refuse a sandbox that was removed: its name may be that of another one by now."""
        if self._members.get(name) is not member or member.is_leaving:
            raise SandboxNotFoundError.named(name)

    def _refuse_revoked(self, name: str) -> None:
        if name in self._revoked():
            raise SandboxStateError(
                f"the sandbox {name} is asleep, and its access is revoked: it is not woken",
                f"restore it with `egress kill --undo {name}`, or remove it",
            )


def visible_info(info: Info, member: FleetMember | None) -> Info:
    """The facts of a sandbox for users: one that is asleep is stopped for its runtime."""
    if member is None or member.sleep == "awake" or info.state != "stopped":
        return info
    return replace(info, state="asleep", exit_code=None)


def refuse_asleep(name: str, member: FleetMember | None) -> None:
    """Refuse a call for which a sandbox is not woken."""
    if member is not None and member.sleep != "awake":
        raise SandboxStateError(f"the sandbox {name} is asleep", _WAKE_HINT)


def slept_port_error(name: str, port: int) -> PortClosedError:
    """The error for a port that was closed when the sandbox fell asleep, or that was never open."""
    return PortClosedError(
        f"nothing listens on port {port} of the sandbox {name}: it has slept, which ends its programs",
        "start the program again",
    )
