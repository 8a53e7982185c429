"""Which other replicas of a gateway give no report, for how long, and why.

A replica that is not heard is compared with nobody, so rules that were taken away may hold in it. It makes
this one no less ready: a replica that has ended is silent as well, and the last one has to serve. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from egress.kubernetes.replica_lag import LOST_SECONDS


@dataclass(frozen=True, slots=True)
class SilentReplica:
    """A replica that has given no report for too long."""

    address: str
    cause: str

    def __str__(self) -> str:
        return f"{self.address} ({self.cause})"


@dataclass(frozen=True, slots=True)
class _Silence:
    since: float
    cause: str


@dataclass(slots=True)
class ReplicaReach:
    """The replicas that do not answer, by their addresses."""

    patience: float = LOST_SECONDS
    """Seconds for which a replica may be silent: for as long it may be starting, or ending."""
    _silences: dict[str, _Silence] = field(default_factory=dict)

    def hear(self, address: str) -> None:
        """Take note of a report."""
        self._silences.pop(address, None)

    def miss(self, address: str, cause: str, now: float) -> None:
        """Take note that a replica was asked in vain."""
        before = self._silences.get(address)
        self._silences[address] = _Silence(now if before is None else before.since, cause)

    def keep(self, addresses: Collection[str]) -> None:
        """Forget the replicas that are gone: they have no other address."""
        for gone in self._silences.keys() - set(addresses):
            del self._silences[gone]

    def silent(self, now: float) -> tuple[SilentReplica, ...]:
        """Return the replicas that have been silent for too long."""
        return tuple(
            SilentReplica(address, each.cause)
            for address, each in sorted(self._silences.items())
            if now - each.since >= self.patience
        )
