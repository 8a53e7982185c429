"""The connections that are being carried now, so that what was allowed can be taken back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from egress.proxy.arrival import Arrival
from egress.rules.policy import Policy


class Carried(Protocol):
    """A connection inside a lane."""

    @property
    def arrival(self) -> Arrival:
        """Where it goes, and for whom."""
        ...

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the secrets that exchanges now under way were sent with."""
        ...

    def recheck(self, policy: Policy, now: int) -> None:
        """End, with `access.withdrawn`, whatever this policy would not let begin now."""
        ...

    def drain(self) -> None:
        """Finish the exchanges under way, take no more, and close."""
        ...

    def close(self, code: str) -> None:
        """End everything on it now; records give this code as the reason."""
        ...


class Live:
    """Every carried connection; lanes enter and leave it."""

    def __init__(self) -> None:
        self._carried: set[Carried] = set()

    def enter(self, carried: Carried) -> None:
        self._carried.add(carried)

    def leave(self, carried: Carried) -> None:
        self._carried.discard(carried)

    def __len__(self) -> int:
        return len(self._carried)

    def __iter__(self) -> Iterator[Carried]:
        # Closing one takes it out of the set while somebody walks over it.
        return iter(list(self._carried))
