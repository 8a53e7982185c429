"""The members of a fleet that outlive its process: their settings, lifetimes and revocations.

The runtime keeps the sandbox, and a note of ours with it. The next fleet of the same folder gets both back.
A lifetime goes on in the meantime, by the clock of the machine. A clock that went back counts as no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Final, Literal

import msgspec

from egress.errors import EgressError
from egress.fleet.lifetime import SandboxLifetime
from egress.fleet.member import FleetMember
from egress.logger import EventLogger
from egress.runtime.errors import SandboxNotFoundError, SandboxStateError
from egress.runtime.protocol import KeepingRuntime, KeptTerms, Runtime, TakenOver
from egress.runtime.proxy_client import Bar
from egress.runtime.record_codec import decode_record, encode_record
from egress.runtime.spec import Spec

_log = EventLogger(__name__)

MAX_NOTE_BYTES: Final = 1024 * 1024

MountCheck = Callable[[Spec], None]
"""Raises for mounts that a sandbox must not have."""


class KeptNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a fleet has to know of its member again."""

    version: Literal[1] = 1
    spec: Spec
    """As it was asked for: the same request finds the sandbox again."""
    terms: SandboxLifetime
    changed: SandboxLifetime | None = None
    """The lifetime that holds, if the limits were changed."""
    made: Annotated[float, msgspec.Meta(ge=0)]
    """In seconds of the machine's clock."""


class NothingKept:
    """The default: the members of a fleet end with it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def add(self, member: FleetMember) -> None:
        """Do nothing."""

    def change(self, member: FleetMember, terms: SandboxLifetime) -> None:
        """Do nothing."""

    def take_over(self, _clock: float, _check_mounts: MountCheck) -> Iterator[tuple[str, FleetMember]]:
        """Yield nothing."""
        return iter(())

    def refuse_start(self, _name: str) -> None:
        """Refuse nothing."""

    def forget(self, name: str) -> None:
        """Do nothing."""

    def record_bars(self) -> None:
        """Do nothing."""

    def leave(self) -> None:
        """End the runtime with its sandboxes."""
        self._runtime.close()


class KeptMembers:
    """The way of a fleet's members to the next fleet."""

    def __init__(
        self,
        runtime: KeepingRuntime,
        now: Callable[[], float],
        bars: Callable[[], Mapping[str, Bar]],
    ) -> None:
        """`now` is the clock of the machine; `bars` tells which sandboxes have no access, and why."""
        self._runtime = runtime
        self._now = now
        self._bars = bars
        self._names: set[str] = set()
        self._made: dict[str, float] = {}
        """When each was created, by the clock of the machine."""
        self._losses: dict[str, str] = {}
        """Sandboxes that were stopped in place of coming back, and why."""

    @property
    def losses(self) -> tuple[str, ...]:
        """What did not come back, and why, for the operator."""
        return tuple(f"the sandbox {name} was stopped: {why}" for name, why in sorted(self._losses.items()))

    def add(self, member: FleetMember) -> None:
        """Keep a new member. One that cannot be kept is removed, and the error raised."""
        name, made = member.spec.name, self._now()
        try:
            self._keep(KeptNote(spec=member.spec, terms=member.terms, made=made))
        except BaseException:
            self._runtime.remove(name)
            raise
        self._names.add(name)
        self._made[name] = made

    def change(self, member: FleetMember, terms: SandboxLifetime) -> None:
        """Keep a member with another lifetime. Raises `EngineUnavailableError` if that cannot be recorded."""
        made = self._made[member.spec.name]
        self._keep(KeptNote(spec=member.spec, terms=member.terms, changed=terms, made=made))

    def _keep(self, note: KeptNote) -> None:
        timeout = (note.changed or note.terms).timeout
        deadline = None if timeout is None else note.made + timeout
        self._runtime.keep(note.spec.name, KeptTerms(encode_record(note).decode(), deadline))

    def take_over(self, clock: float, check_mounts: MountCheck) -> Iterator[tuple[str, FleetMember]]:
        """Yield what has come back, by name; `clock` is the time of the fleet.

        A sandbox whose note is of another version is stopped, and is no member: nobody knows its terms. So is
        one with mounts that it would not get now, such as the folder of the rules of today.
        """
        for found in self._runtime.take_over():
            try:
                member = self._member(found, clock)
                check_mounts(replace(member.spec, mounts=found.mounts))
            except (EgressError, ValueError) as error:
                self._losses[found.name] = str(error)
                _log.error("sandbox.unaccounted", sandbox=found.name, cause=str(error))
                with suppress(EgressError):
                    self._runtime.stop(found.name)
                continue
            _log.info("sandbox.taken_over", sandbox=found.name)
            self._names.add(found.name)
            yield found.name, member

    def _member(self, found: TakenOver, clock: float) -> FleetMember:
        note = decode_record(found.terms.note.encode(), KeptNote, MAX_NOTE_BYTES)
        if note.spec.name != found.name:
            raise ValueError("its record is of another sandbox")
        age = max(0.0, self._now() - note.made)
        # Nobody could use it in the meantime, so it was not idle.
        member = FleetMember(note.spec, note.terms, made=clock - age, used=clock, changed=note.changed)
        self._made[found.name] = note.made
        # It slept, its machine ended, or its owner did before it was started: its next use starts it.
        if not found.bar and self._runtime.info(found.name).state in ("stopped", "created"):
            member.sleep, member.has_slept = "asleep", True
        return member

    def refuse_start(self, name: str) -> None:
        """Raise `SandboxStateError` for a sandbox that was stopped in place of coming back."""
        if name in self._losses:
            raise SandboxStateError(
                f"the sandbox {name} was stopped when it came back: {self._losses[name]}",
                "remove it, or run `egress up` as before",
            )

    def forget(self, name: str) -> None:
        """Keep a sandbox no longer, because it was removed."""
        self._names.discard(name)
        self._made.pop(name, None)
        self._losses.pop(name, None)

    def record_bars(self) -> None:
        """Record which members have no access now: the next proxy would not know."""
        try:
            bars = self._bars()
        except EgressError as error:
            # Without a proxy no sandbox has a network, so the record can wait.
            _log.debug("sandboxes.not_recorded", cause=error.message)
            return
        # A sandbox that the proxy does not know stays as it was recorded.
        for name in bars.keys() & self._names:
            try:
                self._runtime.bar(name, bars[name])
            except SandboxNotFoundError:
                continue
            except EgressError as error:
                # Told, because it would come back with access; and tried again with the next tick.
                _log.error("sandbox.not_recorded", sandbox=name, cause=error.message, hint=error.hint)

    def leave(self) -> None:
        """End the runtime without its sandboxes."""
        # The last look: what was revoked since the one before must not come back with access.
        self.record_bars()
        self._runtime.leave()
