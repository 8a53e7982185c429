"""All sandboxes of one proxy: a runtime that knows names, owners and times.

What is asked for by name is made once: the same again gives the one that is there. Each sandbox can have a
time after which it goes, and one for which it may lie idle; a thread looks for those whose time is over. What
the sandboxes are is the business of the runtime below, and what they may reach that of the proxy.

It may be used by any number of threads. Making and removing of one name wait for each other.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import BinaryIO, Final

import structlog

from egress.errors import EgressError
from egress.fleet.errors import FleetUnavailableError, SandboxDiffersError
from egress.fleet.event_fanout import EventFanout, EventSubscription
from egress.fleet.lifetime import NO_TIME_LIMIT, SandboxLifetime, differences, lifetime_differences
from egress.fleet.member import FleetMember
from egress.fleet.preview import Previews
from egress.fleet.protocol import FleetInfo, Preview, SandboxStatus
from egress.runtime.errors import SandboxExistsError, SandboxNotFoundError, SandboxStateError
from egress.runtime.protocol import NO_OUTPUT, Output, Runtime, RuntimeProcess
from egress.runtime.spec import NO_VALUES, Command, Event, ExecResult, Info, Spec, Values

_log = structlog.get_logger(__name__)

TICK_INTERVAL: Final = 1.0
"""Seconds between two looks at who has to go."""
_BUSY_TIMEOUT: Final = 60.0
_UNKNOWN_FLEET: Final = FleetInfo(kind="unknown")


def _no_check() -> None:
    """All is well."""


def _allow_all_variables(_: Values) -> None:
    """Whatever it is, it may enter."""


def _allow_all_mounts(_: Spec) -> None:
    """Whatever it sees of this machine, it may."""


def _no_offenders() -> Collection[str]:
    """Nobody did anything."""
    return ()


class Fleet:
    """`Sandboxes` in this process."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        about: FleetInfo = _UNKNOWN_FLEET,
        check: Callable[[], None] = _no_check,
        refuse: Callable[[Values], None] = _allow_all_variables,
        lend: Callable[[Spec], None] = _allow_all_mounts,
        guilty: Callable[[], Collection[str]] = _no_offenders,
        clock: Callable[[], float] = time.monotonic,
        tick: float | None = TICK_INTERVAL,
    ) -> None:
        """Take over a runtime, with all that is in it; `close` ends both.

        `check` raises where no sandbox can be served just now, and `refuse` for variables that must not enter
        one: it is asked about those of sandboxes and of commands. `lend` raises for a sandbox that would see
        of this machine what it must not. `guilty` names those that sent a canary which stops them. Without
        `tick` nobody looks for those who have to go or to stop, but for whoever calls `reap` and `judge`.
        """
        self.about = about
        self._runtime = runtime
        self._check = check
        self._refuse = refuse
        self._lend = lend
        self._guilty = guilty
        self._judged: set[str] = set()
        """Those that were stopped for what they sent; whoever is started again is guilty still."""
        self._clock = clock
        self._members: dict[str, FleetMember] = {}
        self._busy: set[str] = set()
        """Names of those that are being made, or taken away."""
        self._changed = threading.Condition()
        self._is_closed = False
        self._broadcast = EventFanout(runtime.events)
        self._previews = Previews(self.dial, self.touch)
        self._closing = threading.Event()
        self._reaper = threading.Thread(
            target=self._run_ticks, args=(tick,), name="egress-reaper", daemon=True
        )
        if tick is not None:
            self._reaper.start()

    # Coming and going

    def create(self, spec: Spec, terms: SandboxLifetime = NO_TIME_LIMIT) -> Info:
        self._check()
        self._refuse(spec.env)
        self._lend(spec)
        with self._exclusive(spec.name):
            found = self._find_existing(spec, terms)
            if found is not None:
                return found
            info = self._runtime.create(spec)
            now = self._clock()
            with self._changed:
                self._members[spec.name] = FleetMember(spec, terms, now, now)
            return info

    def start(self, name: str) -> Info:
        self._check()
        self._refuse_offender(name)
        with self._in_use(name):
            return self._runtime.start(name)

    def pause(self, name: str) -> None:
        with self._in_use(name):
            self._runtime.pause(name)

    def resume(self, name: str) -> None:
        with self._in_use(name):
            self._runtime.resume(name)

    def stop(self, name: str) -> None:
        with self._in_use(name):
            self._runtime.stop(name)

    def remove(self, name: str) -> None:
        with self._exclusive(name):
            self._remove_member(name)

    def close(self) -> None:
        """End all of it: sandboxes, previews, and the runtime."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._changed.notify_all()
            # What is being made would be left over.
            self._changed.wait_for(lambda: not self._busy, _BUSY_TIMEOUT)
        self._closing.set()
        if self._reaper.is_alive():
            self._reaper.join()
        self._previews.close()
        try:
            self._runtime.close()
        finally:
            self._broadcast.close()
            with self._changed:
                self._members.clear()

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        with self._in_use(name):
            self._runtime.open_ports(name, ports)

    def prepare(self, spec: Spec, count: int) -> None:
        self._lend(spec)
        self._runtime.prepare(spec, count)

    # Commands and files

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> RuntimeProcess:
        self._refuse(command.env)
        with self._in_use(name) as member:
            process = self._runtime.spawn(name, command, output)
            if member is not None:
                with self._changed:
                    member.running.append(process)
            return process

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        self._refuse(command.env)
        with self._in_use(name):
            return self._runtime.exec(name, command, output)

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        with self._in_use(name):
            self._runtime.put(name, path, archive)

    @contextmanager
    def get(self, name: str, path: str) -> Iterator[BinaryIO]:
        with self._in_use(name), self._runtime.get(name, path) as archive:
            yield archive

    def dial(self, name: str, port: int) -> socket.socket:
        """Connect to a port in the sandbox. Only the dialling counts as use, not what is said then."""
        with self._in_use(name):
            return self._runtime.dial(name, port)

    # Previews

    def expose(self, name: str, port: int) -> str:
        with self._in_use(name):
            self._runtime.info(name)
            return self._previews.expose(name, port)

    def unexpose(self, name: str, port: int) -> None:
        self._previews.unexpose(name, port)

    def previews(self) -> tuple[Preview, ...]:
        return self._previews.all()

    # Looking

    def info(self, name: str) -> Info:
        return self._runtime.info(name)

    def list(self, labels: Values = NO_VALUES) -> tuple[Info, ...]:
        return self._runtime.list(labels)

    def events(self) -> AbstractContextManager[Iterator[Event]]:
        return self._events()

    def subscribe(self) -> EventSubscription:
        """What happens from now on, for somebody who may have to leave while nothing does."""
        return self._broadcast.subscribe()

    def status(self, name: str) -> SandboxStatus:
        info = self._runtime.info(name)
        now = self._clock()
        with self._changed:
            member = self._members.get(name)
            if member is None:
                return SandboxStatus(info=info)
            return SandboxStatus(info=info, terms=member.terms, left=member.left(now), idle=member.idle(now))

    def touch(self, name: str) -> None:
        with self._in_use(name):
            """Nothing is to be done but that."""

    @contextmanager
    def _events(self) -> Iterator[Iterator[Event]]:
        with self.subscribe() as subscription:
            yield iter(subscription)

    # Those whose time is over

    def remove_expired(self) -> tuple[str, ...]:
        """Remove those whose time is over, and return their names."""
        return tuple(name for name in self._expired() if self._remove_if_expired(name))

    def _run_ticks(self, tick: float | None) -> None:
        while not self._closing.wait(tick):
            self.remove_expired()
            self.stop_offenders()

    def stop_offenders(self) -> None:
        """Stop those that sent a canary which says so. What they have written stays, for whoever looks."""
        try:
            guilty = self._guilty()
        except EgressError as error:
            # Without a proxy there is no way out for anybody.
            _log.debug("sandboxes.not_judged", cause=error.message)
            return
        with self._changed:
            self._judged.intersection_update(guilty)
            found = sorted(set(guilty) - self._judged)
        for name in found:
            self._stop_offender(name)

    def _stop_offender(self, name: str) -> None:
        """Stop one, unless it was removed in the meantime, and another one has its name."""
        try:
            with self._exclusive(name):
                if name in self._guilty():
                    # First: nobody starts it again in between.
                    self._judged.add(name)
                    self._runtime.stop(name)
                    _log.warning("sandbox.stopped", sandbox=name, reason="it sent a canary")
        except EgressError as error:
            # The next look tries again.
            with self._changed:
                self._judged.discard(name)
            if not isinstance(error, SandboxNotFoundError):
                _log.warning("sandbox.not_stopped", sandbox=name, cause=error.message, hint=error.hint)

    def _expired(self) -> tuple[str, ...]:
        now = self._clock()
        with self._changed:
            for name, member in self._members.items():
                reason = None if member.is_leaving or name in self._busy else member.reason_to_leave(now)
                if reason is not None:
                    # From here on nobody begins anything in it.
                    member.is_leaving = True
                    _log.info("sandbox.expired", sandbox=name, reason=reason)
            # Who is taken away just now needs nobody else for that.
            leaving = (name for name, member in self._members.items() if member.is_leaving)
            return tuple(name for name in leaving if name not in self._busy)

    def _remove_if_expired(self, name: str) -> bool:
        try:
            with self._exclusive(name):
                self._remove_member(name)
        except EgressError as error:
            # It stays one that has to go, and the next look tries again.
            _log.warning("sandbox.not_removed", sandbox=name, cause=error.message, hint=error.hint)
            return False
        return True

    def _remove_member(self, name: str) -> None:
        with self._changed:
            member = self._members.get(name)
            if member is not None:
                member.is_leaving = True
        self._previews.forget(name)
        self._runtime.remove(name)
        with self._changed:
            self._members.pop(name, None)
            self._judged.discard(name)

    # Who is in use

    @contextmanager
    def _exclusive(self, name: str) -> Iterator[None]:
        """Be the only one who makes or removes this one."""
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
        """Keep it from being idle. None is one that this fleet did not make: the runtime may know it."""
        with self._changed:
            self._refuse_closed()
            member = self._members.get(name)
            if member is not None:
                if member.is_leaving:
                    raise SandboxNotFoundError(f"there is no sandbox {name}", "create it first")
                member.under_way += 1
        try:
            yield member
        finally:
            if member is not None:
                with self._changed:
                    member.under_way -= 1
                    member.used = self._clock()

    def _find_existing(self, spec: Spec, terms: SandboxLifetime) -> Info | None:
        """The one that is there already, if it was made like that. Raises `SandboxDiffersError`."""
        with self._changed:
            member = self._members.get(spec.name)
        if member is None:
            return None
        if member.is_leaving:
            self._remove_member(spec.name)
            return None
        _refuse_different(member, spec, terms)
        with self._in_use(spec.name):
            return self._runtime.info(spec.name)

    def _refuse_offender(self, name: str) -> None:
        if name in self._judged and name in self._guilty():
            raise SandboxStateError(
                f"the sandbox {name} sent a canary that stops it, and has no access any more",
                f"see what it did by `egress log query --sandbox {name}`, and remove it",
            )

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise FleetUnavailableError("these sandboxes have been closed", "open them again")


def _refuse_different(member: FleetMember, spec: Spec, terms: SandboxLifetime) -> None:
    if member.terms.owner != terms.owner:
        raise SandboxExistsError(
            f"there is a sandbox {spec.name} of somebody else", "take another name, or their consent"
        )
    others = (*differences(member.spec, spec), *lifetime_differences(member.terms, terms))
    if others:
        raise SandboxDiffersError(
            f"there is a sandbox {spec.name} already, with another {', another '.join(others)}",
            "ask for the same, remove it first, or take another name",
        )
