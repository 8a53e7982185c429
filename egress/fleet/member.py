"""One sandbox of a fleet: how it was made, and when it was last in use.

Time comes from whoever asks. Whether a command still runs is asked of the command itself, so that nobody has
to wait beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from egress.fleet.lifetime import SandboxLifetime
from egress.runtime.protocol import RuntimeProcess
from egress.runtime.spec import Spec

LeaveReason = Literal["timeout", "idle"]


@dataclass(slots=True)
class FleetMember:
    """What a fleet knows of one sandbox. Not safe for threads by itself."""

    spec: Spec
    terms: SandboxLifetime
    made: float
    used: float
    """When something was last done with it."""
    under_way: int = 0
    """Calls that have not returned."""
    running: list[RuntimeProcess] = field(default_factory=list)
    """Commands that were begun, and had not ended when that was last looked at."""
    is_leaving: bool = False

    def drop_ended(self, now: float) -> None:
        """Take note of what is under way."""
        if not (self.under_way or self.running):
            return
        # One that ended since then was in use until about now.
        self.used = now
        self.running = [process for process in self.running if _is_running(process)]

    def idle(self, now: float) -> float:
        """Seconds for which nothing was done with it."""
        self.drop_ended(now)
        return max(0.0, now - self.used)

    def left(self, now: float) -> float | None:
        """Seconds until its time is over."""
        return None if self.terms.timeout is None else max(0.0, self.made + self.terms.timeout - now)

    def reason_to_leave(self, now: float) -> LeaveReason | None:
        """Why it has to go by now, if it has."""
        # Also where no time is set: what commands printed is not to be kept for ever.
        self.drop_ended(now)
        if self.left(now) == 0:
            return "timeout"
        most = self.terms.idle_timeout
        return "idle" if most is not None and self.idle(now) >= most else None


def _is_running(process: RuntimeProcess) -> bool:
    try:
        process.wait(0)
    except TimeoutError:
        return True
    except Exception:  # noqa: BLE001 - it has settled, with whatever
        return False
    return False
