"""Values of a secret, past and present: all of them are searched for in responses.

An upstream can repeat an old request, so a replaced value is searched for some time longer. A source that
gives another value at every fetch must not slow the search down for ever: only the newest few are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from egress.secrets.source_value import SourceValue

REPLACED_VALUE_LIFETIME = 3600.0
"""Seconds for which a replaced value is searched for."""
MAX_VALUES = 16
"""Values of a secret that are searched for at once."""


@dataclass(slots=True, eq=False)
class KnownValue:
    """A name and value from one owner. Compared by identity, so that a tuple of them can be a key."""

    name: str
    value: SourceValue
    owner: object = field(repr=False)
    carried: int = 0
    """Number of running exchanges that carry the value."""


class ValueHistory:
    """The values of a secret, the newest last.

    An *owner* is a cache entry, which has at most one value at a time. Two owners exist while a reload
    replaces a source and exchanges of the old policy still run.
    """

    __slots__ = ("_ends", "_next")

    def __init__(self) -> None:
        self._ends: dict[KnownValue, float] = {}
        self._next = math.inf

    def add(self, name: str, value: SourceValue, owner: object, now: float) -> None:
        """Note the owner's value from now on. A short value cannot be searched for."""
        self.retire(owner, now)
        if value.is_short:
            return
        # A value that comes back keeps its record, in which running exchanges are counted.
        same = (known for known in self._ends if known.owner is owner and known.value.is_same(value))
        newest = next(same, None) or KnownValue(name, value, owner)
        self._ends.pop(newest, None)
        self._ends[newest] = math.inf
        # The end of a value in use is infinite, so it is dropped last.
        for oldest in sorted(self._ends, key=self._ends.__getitem__)[:-MAX_VALUES]:
            del self._ends[oldest]

    def retire(self, owner: object, now: float) -> None:
        """Note that the owner has no value any more."""
        for known, end in self._ends.items():
            if known.owner is owner:
                self._ends[known] = min(end, now + REPLACED_VALUE_LIFETIME)
        self._next = min(self._ends.values(), default=math.inf)

    def searched_values(self, now: float) -> tuple[KnownValue, ...]:
        """Return the values to search for now."""
        if now >= self._next:
            self._ends = {known: end for known, end in self._ends.items() if end > now or known.carried}
            self._next = min(self._ends.values(), default=math.inf)
        return tuple(self._ends)

    def in_use(self) -> list[KnownValue]:
        """Return the current values: an exchange sent now carries one of these."""
        return [known for known, end in self._ends.items() if end == math.inf]

    @property
    def is_carried(self) -> bool:
        """Report whether a running exchange was sent with any of the values."""
        return any(known.carried for known in self._ends)
