"""How long a replica has been behind another one, judged by the versions that both know.

A replica is behind in a subject from the moment at which another one tells a version that it does not know,
until it knows that version. A newer version does not begin the time anew, and a busy cluster, in which the
others are always a moment ahead, makes nobody late.

Versions of one cluster grow with every change, so of two replicas only one can be behind in a subject. A
replica that is not ready, or not heard any more, is nobody to be behind of: the last replica that can serve
goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from egress.kubernetes.replica_report import ReplicaReport

LOST_SECONDS: Final = 10.0
"""A replica that was silent for so long is not compared with any more."""


@dataclass(frozen=True, slots=True)
class Behind:
    """A subject in which this replica is late."""

    subject: str
    replica: str
    """The replica that is ahead."""


@dataclass(frozen=True, slots=True)
class _Missing:
    version: int
    since: float


@dataclass(slots=True)
class ReplicaLag:
    """The versions that others have told, and that this replica does not know yet."""

    patience: float
    """Seconds for which a replica may be behind."""
    _missing: dict[str, dict[str, _Missing]] = field(default_factory=dict)
    _heard: dict[str, float] = field(default_factory=dict)

    def hear(self, report: ReplicaReport, known: Mapping[str, int], now: float) -> None:
        """Take a report; `known` are the versions that this replica knows by now."""
        if not report.ready:
            self._forget(report.replica)
            return
        self._heard[report.replica] = now
        missing = self._missing.setdefault(report.replica, {})
        for subject, version in report.versions.items():
            reached, before = known.get(subject, 0), missing.get(subject)
            if version <= reached:
                missing.pop(subject, None)
            elif before is None or before.version <= reached:
                missing[subject] = _Missing(version, now)

    def behind(self, now: float) -> tuple[Behind, ...]:
        """Return the subjects in which this replica has been behind for too long."""
        for silent in [name for name, heard in self._heard.items() if heard < now - LOST_SECONDS]:
            self._forget(silent)
        return tuple(
            Behind(subject, replica)
            for replica, missing in sorted(self._missing.items())
            for subject, each in sorted(missing.items())
            if now - each.since > self.patience
        )

    def _forget(self, replica: str) -> None:
        self._heard.pop(replica, None)
        self._missing.pop(replica, None)
