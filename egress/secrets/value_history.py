"""Under which values one secret has been known: what has to be searched for in responses.

An upstream can repeat what it was sent a while ago, so a value that was replaced is searched for some time
longer. A source that gives another value at every look must not make the search ever slower: only the newest
few are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from egress.secrets.source_value import SourceValue

REPLACED_VALUE_LIFETIME = 3600.0
"""Seconds for which a replaced value is searched for."""
MAX_VALUES = 16
"""Values of one secret that are searched for at once."""


@dataclass(slots=True, eq=False)
class KnownValue:
    """One name and one value from one owner. Compared by identity, so that a tuple of them can be a key."""

    name: str
    value: SourceValue
    owner: object = field(repr=False)
    carried: int = 0
    """By so many exchanges that run."""


class ValueHistory:
    """The values of one secret, the newest last.

    An *owner* is whoever holds one value at a time. There are two while a reload replaces a source and
    exchanges of the policy before are still running.
    """

    __slots__ = ("_ends", "_next")

    def __init__(self) -> None:
        self._ends: dict[KnownValue, float] = {}
        self._next = math.inf

    def add(self, name: str, value: SourceValue, owner: object, now: float) -> None:
        """Note the value that the owner holds from now on. A short one cannot be searched for."""
        self.retire(owner, now)
        if value.is_short:
            return
        same = (known for known in self._ends if known.owner is owner and known.value.is_same(value))
        newest = next(same, None) or KnownValue(name, value, owner)
        self._ends.pop(newest, None)
        self._ends[newest] = math.inf
        # A value in use is the last to go.
        for oldest in sorted(self._ends, key=self._ends.__getitem__)[:-MAX_VALUES]:
            del self._ends[oldest]

    def retire(self, owner: object, now: float) -> None:
        """Note that the owner holds none any more."""
        for known, end in self._ends.items():
            if known.owner is owner:
                self._ends[known] = min(end, now + REPLACED_VALUE_LIFETIME)
        self._next = min(self._ends.values(), default=math.inf)

    def searched_values(self, now: float) -> tuple[KnownValue, ...]:
        """Return what is to be searched for now."""
        if now >= self._next:
            self._ends = {known: end for known, end in self._ends.items() if end > now or known.carried}
            self._next = min(self._ends.values(), default=math.inf)
        return tuple(self._ends)

    def in_use(self) -> list[KnownValue]:
        """Return what owners hold now: an exchange that is sent now carries one of these."""
        return [known for known, end in self._ends.items() if end == math.inf]

    @property
    def is_carried(self) -> bool:
        """Whether an exchange runs that was sent with any of the values."""
        return any(known.carried for known in self._ends)
