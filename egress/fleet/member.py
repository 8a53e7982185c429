"""A sandbox of a fleet: its settings, and when it was last used.

The caller passes the time. Whether a command still runs is asked of the command itself, so that no thread has
to wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from egress.fleet.errors import SandboxDiffersError
from egress.fleet.lifetime import SandboxLifetime, differences, lifetime_differences
from egress.runtime.errors import ExecTimeoutError, SandboxExistsError
from egress.runtime.protocol import RuntimeProcess
from egress.runtime.spec import Spec

LeaveReason = Literal["timeout", "idle"]
SleepState = Literal["awake", "falling", "asleep"]
"""`falling` lasts from the decision to stop a sandbox until it is stopped."""


@dataclass(slots=True)
class FleetMember:
    """A fleet's record of one sandbox. The fleet's lock protects it."""

    spec: Spec
    terms: SandboxLifetime
    """As it was asked for: the same request finds it again."""
    made: float
    used: float
    """When the sandbox was last used."""
    under_way: int = 0
    """Calls that have not returned."""
    running: list[RuntimeProcess] = field(default_factory=list)
    """Commands that had not ended at the last look."""
    is_leaving: bool = False
    changed: SandboxLifetime | None = None
    """Its lifetime, if the limits were changed since."""
    sleep: SleepState = "awake"
    """`awake` means only that no use has to wake it: it may be stopped or paused."""
    has_slept: bool = False
    unfit_since: float | None = None
    """The last use before it was found idle and not running, so that each tick need not look again."""

    @property
    def current(self) -> SandboxLifetime:
        """The lifetime that holds now."""
        return self.changed or self.terms

    def drop_ended(self, now: float) -> None:
        """Count calls and commands under way as use, and forget commands that ended."""
        if not (self.under_way or self.running):
            return
        # A command that ended since the last look was in use until about now.
        self.used = now
        self.running = [process for process in self.running if _is_running(process)]

    def idle(self, now: float) -> float:
        """Seconds since the last use."""
        self.drop_ended(now)
        return max(0.0, now - self.used)

    def left(self, now: float) -> float | None:
        """Seconds until its timeout; None without one."""
        timeout = self.current.timeout
        return None if timeout is None else max(0.0, self.made + timeout - now)

    def reason_to_leave(self, now: float) -> LeaveReason | None:
        """Why the sandbox has to be removed now; None if it may stay."""
        # Needed without a time limit too: the output of ended commands must not be kept for ever.
        self.drop_ended(now)
        if self.left(now) == 0:
            return "timeout"
        return "idle" if self.terms.on_idle == "delete" and self._is_idle(now) else None

    def may_sleep(self, now: float) -> bool:
        """Return whether the sandbox has been idle long enough to be put to sleep."""
        if self.terms.on_idle != "sleep" or self.is_leaving or self.sleep != "awake":
            return False
        return self._is_idle(now) and self.unfit_since != self.used

    def _is_idle(self, now: float) -> bool:
        limit = self.current.idle_timeout
        return limit is not None and self.idle(now) >= limit


def refuse_different(member: FleetMember, spec: Spec, terms: SandboxLifetime) -> None:
    """Raise `SandboxDiffersError` or `SandboxExistsError` unless this request made the member."""
    if member.terms.owner != terms.owner:
        raise SandboxExistsError(f"the sandbox {spec.name} belongs to another owner", "choose another name")
    others = (*differences(member.spec, spec), *lifetime_differences(member.terms, terms))
    if others:
        raise SandboxDiffersError(
            f"the sandbox {spec.name} exists with other settings: {', '.join(others)}",
            "use the same settings, remove it first, or choose another name",
        )


def _is_running(process: RuntimeProcess) -> bool:
    try:
        process.wait(0)
    except ExecTimeoutError:
        # The command was ended by its timeout; every other timeout is that of this wait.
        return False
    except TimeoutError:
        return True
    except Exception:  # noqa: BLE001 - any error means that the command has settled
        return False
    return False
