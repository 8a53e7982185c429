"""The sandboxes of one proxy: a runtime extended by names, owners and lifetimes.

`create` makes a sandbox once per name: the same request again returns the existing sandbox. A sandbox can
have a timeout and an idle timeout; a thread removes expired sandboxes. The runtime below makes the sandboxes,
and the proxy decides what they may reach. Any number of threads may use a fleet; creating and removing one
name exclude each other.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import BinaryIO, Final

from egress.fleet.env_policy import AllVariables, VariablePolicy
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.event_fanout import EventFanout, EventSubscription
from egress.fleet.kept_members import KeptMembers, NothingKept
from egress.fleet.lifetime import NO_TIME_LIMIT, SandboxLifetime, changed_lifetime, check_on_idle
from egress.fleet.member import FleetMember, refuse_different
from egress.fleet.offenders import CanaryOffenders
from egress.fleet.preview import Previews
from egress.fleet.process_table import ProcessTable
from egress.fleet.protocol import FleetInfo, Preview, SandboxStatus, Snapshot, SnapshotKind
from egress.fleet.proxy_policies import ProxyPolicies
from egress.fleet.run_rights import RunsWithRights
from egress.fleet.sandbox_snapshots import FleetSnapshots
from egress.fleet.session_table import SessionTable
from egress.fleet.sleeping import SandboxSleep, refuse_asleep, slept_port_error, visible_info
from egress.fleet.snapshot_store import SnapshotStore
from egress.fleet.tending import log_failure, tend
from egress.logger import EventLogger
from egress.runtime.errors import PortClosedError, SandboxNotFoundError, SandboxStateError
from egress.runtime.protocol import NO_OUTPUT, Output, Runtime, RuntimeProcess, TicketKeeper
from egress.runtime.spec import NO_VALUES, Command, Event, ExecResult, Info, Spec, Values

_log = EventLogger(__name__)

TICK_INTERVAL: Final = 1.0
"""Seconds between two searches for expired sandboxes and offenders."""
_BUSY_TIMEOUT: Final = 60.0
_UNKNOWN_FLEET: Final = FleetInfo(kind="unknown")


def _no_check() -> None:
    """Default check: the fleet is always ready."""


def _allow_all_mounts(_: Spec) -> None:
    """Default check: allow all mounts."""


class Fleet:
    """`SandboxFleet` in this process."""

    def __init__(  # noqa: PLR0913 - each parameter is a hook of the fleet
        self,
        runtime: Runtime,
        *,
        about: FleetInfo = _UNKNOWN_FLEET,
        check: Callable[[], None] = _no_check,
        variables: VariablePolicy | None = None,
        check_mounts: Callable[[Spec], None] = _allow_all_mounts,
        canary_offenders: Callable[[], Collection[str]] = tuple,
        revoked: Callable[[], Collection[str]] = tuple,
        snapshots: SnapshotStore | None = None,
        clock: Callable[[], float] = time.monotonic,
        tick: float | None = TICK_INTERVAL,
        kept: KeptMembers | None = None,
    ) -> None:
        """Take over a runtime and its sandboxes; `close` ends both.

        With `kept`, sandboxes outlive this fleet, and those of the last one come back.

        `check` raises while no sandbox can be served. `variables` judges those of sandboxes and of commands.
        `check_mounts` raises for mounts that would show a sandbox what it must not see. `canary_offenders`
        names the sandboxes that sent a canary whose rule stops them, `revoked` those without access. Without
        `tick` no thread runs: the caller calls `remove_expired`, `exposed.end_expired`,
        `offenders.stop_new` and `sleep_idle`.
        """
        self.about = about
        self._runtime = runtime
        self._check = check
        self._variables = variables or AllVariables()
        self._check_mounts = check_mounts
        self._clock = clock
        self._members: dict[str, FleetMember] = {}
        self._busy: set[str] = set()
        """Names of sandboxes that are being created or removed."""
        self._changed = threading.Condition()
        self._is_closed = False
        self._kept = kept or NothingKept(runtime)
        self._members.update(self._kept.take_over(clock(), check_mounts))
        self._fanout = EventFanout(runtime.events)
        self._sleep = SandboxSleep(
            runtime, self._stop, self._members, self._changed, self._exclusive, check, revoked
        )
        self._snapshots = FleetSnapshots(runtime, snapshots)
        self.exposed = Previews(self.dial, self.touch, clock)
        self.tracked = ProcessTable(self)
        tickets = runtime if isinstance(runtime, TicketKeeper) else None
        self.policies = ProxyPolicies(lambda: self.about, self.info, tickets)
        self._runs = RunsWithRights(runtime, self.policies)
        self.sessions = SessionTable(self)
        self.offenders = CanaryOffenders(
            self._stop, self._members, self._changed, self._exclusive, canary_offenders
        )
        if self._members:
            # Before the first call: an offender that came back must not be started.
            self.offenders.stop_new()
        self._closing = threading.Event()
        self._reaper = threading.Thread(
            target=self._run_ticks, args=(tick,), name="egress-reaper", daemon=True
        )
        if tick is not None:
            self._reaper.start()

    # Lifecycle

    def create(self, spec: Spec, terms: SandboxLifetime = NO_TIME_LIMIT) -> Info:
        self._check()
        self._variables.check(spec.env)
        self._check_mounts(spec)
        check_on_idle(spec, terms)
        # Every check comes before the runtime is touched: a refused sandbox leaves nothing behind.
        with self._exclusive(spec.name):
            found = self._find_existing(spec, terms)
            if found is not None:
                return found
            # Dummies are no setting of the sandbox: they follow the rules, and the same one is found again.
            env = {**self._variables.dummies(), **spec.env}
            info = self._snapshots.create(
                spec, terms, lambda made: self._runtime.create(replace(made, env=env))
            )
            now = self._clock()
            member = FleetMember(spec, terms, now, now)
            self._kept.add(member)
            with self._changed:
                self._members[spec.name] = member
            return info

    def start(self, name: str) -> Info:
        self._check()
        self.offenders.refuse(name)
        self._kept.refuse_start(name)
        with self._awake(name):
            return self._runtime.start(name)

    def pause(self, name: str) -> None:
        with self._in_use(name) as member:
            refuse_asleep(name, member)
            self._runtime.pause(name)

    def resume(self, name: str) -> None:
        with self._in_use(name) as member:
            refuse_asleep(name, member)
            self._runtime.resume(name)

    def stop(self, name: str) -> None:
        with self._in_use(name) as member:
            self._sleep.end(name, member)
            self._stop(name)

    def _stop(self, name: str) -> None:
        self._runtime.stop(name)
        self.sessions.lose(name)

    def sleep(self, name: str) -> None:
        self._sleep.sleep(name)

    def wake(self, name: str) -> None:
        with self._awake(name):
            self._runtime.info(name)

    def remove(self, name: str) -> None:
        with self._exclusive(name):
            self._remove_member(name)

    def discard(self, name: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: name not in self._busy or self._is_closed)
            self._refuse_closed()
            if member := self._members.get(name):
                member.is_leaving = True
            # Busy from here on, so that `close` waits for the removal, and a new sandbox of this name, too.
            self._busy.add(name)
        threading.Thread(target=self._remove_discarded, args=(name,), name="egress-removal").start()

    def close(self) -> None:
        """End everything: previews, sandboxes and the runtime."""
        self._end(self._runtime.close)

    def leave(self) -> None:
        """End without the kept sandboxes: they stay, for the next fleet."""
        self._end(self._kept.leave)

    def _end(self, end_runtime: Callable[[], None]) -> None:
        with self._changed:
            if self._is_closed:
                return
            # From here on every call is refused, so no sandbox can appear behind the removal.
            self._is_closed = True
            self._changed.notify_all()
            # Wait for creations under way: the runtime would not know their sandboxes yet, and leave them
            # behind.
            self._changed.wait_for(lambda: not self._busy, _BUSY_TIMEOUT)
        self._closing.set()
        if self._reaper.is_alive():
            self._reaper.join()
        self.exposed.close()
        try:
            end_runtime()
        finally:
            self.tracked.close()
            self.sessions.close()
            self._fanout.close()
            with self._changed:
                self._members.clear()

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        with self._in_use(name):
            self._runtime.open_ports(name, ports)

    def prepare(self, spec: Spec, count: int) -> None:
        self._check_mounts(spec)
        self._runtime.prepare(spec, count)

    # Commands and files

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> RuntimeProcess:
        self._variables.check(command.env)
        with self._awake(name) as member:
            process = self._runs.spawn(name, command, output)
            if member is not None:
                with self._changed:
                    member.running.append(process)
            return process

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        self._variables.check(command.env)
        with self._awake(name):
            return self._runs.exec(name, command, output)

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        with self._awake(name):
            self._runtime.put(name, path, archive)

    @contextmanager
    def get(self, name: str, path: str) -> Iterator[BinaryIO]:
        with self._awake(name), self._runtime.get(name, path) as archive:
            yield archive

    def dial(self, name: str, port: int) -> socket.socket:
        """Connect to a port in the sandbox. Only the dialling counts as use, not the later traffic."""
        with self._awake(name) as member:
            try:
                return self._runtime.dial(name, port)
            except PortClosedError:
                if member is None or not member.has_slept:
                    raise
                raise slept_port_error(name, port) from None

    # Previews

    def expose(self, name: str, port: int, expires: float | None = None) -> Preview:
        # After a removal meanwhile, the address would lead to the next sandbox of this name.
        with self._exclusive(name), self._in_use(name):
            self._runtime.info(name)
            return self.exposed.expose(name, port, expires)

    def unexpose(self, name: str, port: int) -> None:
        self.exposed.unexpose(name, port)

    def previews(self) -> tuple[Preview, ...]:
        return self.exposed.all()

    # Snapshots

    def snapshot(self, name: str, snapshot: str, kind: SnapshotKind = "workspace") -> Snapshot:
        with self._awake(name) as member:
            return self._snapshots.take(name, member, snapshot, kind)

    def snapshots(self) -> tuple[Snapshot, ...]:
        return self._snapshots.all()

    def delete_snapshot(self, snapshot: str) -> None:
        self._snapshots.delete(snapshot)

    # State

    def info(self, name: str) -> Info:
        return self._shown(self._runtime.info(name))

    def list(self, labels: Values = NO_VALUES) -> tuple[Info, ...]:
        with self._changed:
            leaving = {name for name, member in self._members.items() if member.is_leaving}
        return tuple(self._shown(each) for each in self._runtime.list(labels) if each.name not in leaving)

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        with self.subscribe() as subscription:
            yield iter(subscription)

    def subscribe(self) -> EventSubscription:
        """Events from now on, for a subscriber that may have to leave before the next event."""
        return self._fanout.subscribe()

    def status(self, name: str) -> SandboxStatus:
        info = self.info(name)
        now = self._clock()
        with self._changed:
            member = self._members.get(name)
            if member is None:
                return SandboxStatus(info=info)
            return SandboxStatus(
                info=info, terms=member.current, left=member.left(now), idle=member.idle(now)
            )

    def change_lifetime(self, name: str, changes: Mapping[str, float | None]) -> None:
        with self._in_use(name) as member:
            if member is None:
                # Raises for a sandbox that no one knows.
                self._runtime.info(name)
                raise SandboxStateError(f"the sandbox {name} was not created by this fleet", "remove it")
            terms = changed_lifetime(member.current, changes, self._clock() - member.made)
            check_on_idle(member.spec, terms)
            # First: one whose change cannot be recorded keeps the time that it has.
            self._kept.change(member, terms)
            with self._changed:
                member.changed = terms

    def touch(self, name: str) -> None:
        with self._in_use(name):
            """Entering the context is all: it records the use."""

    def _shown(self, info: Info) -> Info:
        with self._changed:
            return visible_info(info, self._members.get(info.name))

    # Expiry and offenders

    def remove_expired(self) -> tuple[str, ...]:
        """Remove sandboxes whose time is over, and return their names."""
        return tuple(name for name in self._expired() if self._remove_if_expired(name))

    def _run_ticks(self, tick: float | None) -> None:
        while not self._closing.wait(tick):
            # Recorded before the stop: an offender that is being stopped must not come back running.
            duties = (self.remove_expired, self.exposed.end_expired, self._kept.record_bars)
            tend((*duties, self.offenders.stop_new, self.sleep_idle))

    def sleep_idle(self) -> tuple[str, ...]:
        """Put sandboxes to sleep that are idle and shall sleep, and return their names."""
        return self._sleep.sleep_idle(self._clock)

    def _expired(self) -> tuple[str, ...]:
        now = self._clock()
        with self._changed:
            for name, member in self._members.items():
                reason = None if member.is_leaving or name in self._busy else member.reason_to_leave(now)
                if reason is not None:
                    # A sandbox that is leaving starts no more commands.
                    member.is_leaving = True
                    _log.info("sandbox.expired", sandbox=name, reason=reason)
            # A sandbox in `_busy` is being removed already.
            leaving = (name for name, member in self._members.items() if member.is_leaving)
            return tuple(name for name in leaving if name not in self._busy)

    def _remove_if_expired(self, name: str) -> bool:
        try:
            with self._exclusive(name):
                # Looked at again: the name may be that of a new sandbox by now.
                member = self._members.get(name)
                if member is None or not member.is_leaving:
                    return False
                self._remove_member(name)
        except Exception as error:  # noqa: BLE001 - the others are removed in any case
            # The member keeps `is_leaving`, so the next tick retries.
            log_failure("sandbox.not_removed", name, error)
            return False
        return True

    def _remove_discarded(self, name: str) -> None:
        try:
            self._remove_member(name)
        except Exception as error:  # noqa: BLE001 - the others are removed in any case
            # The member keeps `is_leaving`, so the next tick retries.
            log_failure("sandbox.not_removed", name, error)
        finally:
            with self._changed:
                self._busy.discard(name)
                self._changed.notify_all()

    def _remove_member(self, name: str) -> None:
        with self._changed:
            if member := self._members.get(name):
                member.is_leaving = True
        self.exposed.forget(name)
        self._runtime.remove(name)
        self.tracked.forget(name)
        self.sessions.forget(name)
        with self._changed:
            self._members.pop(name, None)
            self.offenders.forget(name)
            self._kept.forget(name)

    # Exclusion and use

    @contextmanager
    def _exclusive(self, name: str) -> Iterator[None]:
        """Exclude other calls that create or remove this name."""
        with self._changed:
            self._changed.wait_for(lambda: name not in self._busy or self._is_closed)
            self._refuse_closed()
            self._busy.add(name)
        try:
            yield
        finally:
            with self._changed:
                self._busy.discard(name)
                self._changed.notify_all()

    @contextmanager
    def _in_use(self, name: str) -> Iterator[FleetMember | None]:
        """Count a call as use of the sandbox. Yields None for a sandbox that only the runtime knows."""
        with self._changed:
            self._refuse_closed()
            member = self._members.get(name)
            if member is not None:
                if member.is_leaving:
                    raise SandboxNotFoundError.named(name)
                member.under_way += 1
        try:
            yield member
        finally:
            if member is not None:
                with self._changed:
                    member.under_way -= 1
                    member.used = self._clock()

    @contextmanager
    def _awake(self, name: str) -> Iterator[FleetMember | None]:
        """Count a call as use of the sandbox, and wake it if it is asleep."""
        with self._in_use(name) as member:
            # After the use was counted: a sandbox in use does not fall asleep by itself.
            if member is not None:
                self._sleep.wake(name, member)
            yield member

    def _find_existing(self, spec: Spec, terms: SandboxLifetime) -> Info | None:
        """The existing sandbox of this name, if its settings are equal. Raises `SandboxDiffersError`."""
        with self._changed:
            member = self._members.get(spec.name)
        if member is None:
            return None
        if member.is_leaving:
            self._remove_member(spec.name)
            return None
        refuse_different(member, spec, terms)
        with self._in_use(spec.name):
            return self.info(spec.name)

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise FleetUnavailableError("this fleet is closed", "open it again")
