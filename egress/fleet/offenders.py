"""Sandboxes that sent a canary whose rule stops them: stopped once, and not started again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager

from egress.errors import EgressError
from egress.fleet.member import FleetMember
from egress.fleet.tending import log_failure
from egress.logger import EventLogger
from egress.runtime.errors import SandboxNotFoundError, SandboxStateError

_log = EventLogger(__name__)


class CanaryOffenders:
    """The offenders among the sandboxes of a fleet, whose lock and members these are."""

    def __init__(
        self,
        stop: Callable[[str], None],
        members: Mapping[str, FleetMember],
        changed: threading.Condition,
        exclusive: Callable[[str], AbstractContextManager[None]],
        named: Callable[[], Collection[str]],
    ) -> None:
        """`stop` ends the processes of a sandbox. `named` asks the proxy for the names of offenders."""
        self._end = stop
        self._members = members
        self._changed = changed
        self._exclusive = exclusive
        self._named = named
        self._stopped: set[str] = set()

    def stop_new(self) -> None:
        """Stop those that are not stopped yet. Their files stay, as evidence."""
        try:
            offenders = self._named()
        except EgressError as error:
            # Without a proxy no sandbox has a network, so the check can wait.
            _log.debug("sandboxes.not_judged", cause=error.message)
            return
        with self._changed:
            self._stopped.intersection_update(offenders)
            found = sorted(set(offenders) - self._stopped)
        for name in found:
            self._stop(name)

    def refuse(self, name: str) -> None:
        """Raise `SandboxStateError` for an offender that is to be started."""
        if name in self._stopped and name in self._named():
            raise SandboxStateError(
                f"the sandbox {name} sent a canary and was stopped: its access is revoked",
                f"review `egress log query --sandbox {name}`, then remove the sandbox",
            )

    def forget(self, name: str) -> None:
        """Forget a sandbox that was removed. The lock of the fleet is held."""
        self._stopped.discard(name)

    def _stop(self, name: str) -> None:
        """Stop one sandbox, unless it was removed in the meantime and its name belongs to a new sandbox."""
        try:
            with self._exclusive(name):
                if name in self._named():
                    # Recorded before the stop, so that no other thread starts the sandbox in between.
                    self._stopped.add(name)
                    self._end(name)
                    with self._changed:
                        if member := self._members.get(name):
                            # One that slept is stopped from here on: no use wakes it.
                            member.sleep = "awake"
                    _log.warning("sandbox.stopped", sandbox=name, reason="it sent a canary")
        except Exception as error:  # noqa: BLE001 - the other offenders are stopped in any case
            # Forgotten again, so that the next tick retries.
            with self._changed:
                self._stopped.discard(name)
            if not isinstance(error, SandboxNotFoundError):
                log_failure("sandbox.not_stopped", name, error)
