"""How far each secret reaches, and has reached: the destinations whose answers are searched for it.

Theory of operation. Rules bind a secret to destinations. When rules that come into force bind it elsewhere or
do not name it any more, it has been sent to the old destinations, and those can still repeat it: so they are
searched for it some time longer, as for a value that was replaced. A binding counts from the moment anybody
goes by it: exchanges of new rules may run before those are warmed, and some of the old ones long after.

The number of bindings that are over is bounded; those that have been over longest go first.

Pure bookkeeping, of bindings and never of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from egress.rules.decide.policy import Binding, SecretSpec
from egress.secrets.value_history import REPLACED_VALUE_LIFETIME

MAX_PAST_BINDINGS = 1024
"""Bindings of secrets that are remembered although no rule has them any more."""

type Key = tuple[str, tuple[Binding, ...]]


class BindingHistory:
    """The bindings of all secrets, those in force and those of a while ago."""

    __slots__ = ("_ends", "_specs")

    def __init__(self) -> None:
        self._specs: dict[Key, SecretSpec] = {}
        self._ends: dict[Key, float] = {}

    def note(self, specs: Iterable[SecretSpec], now: float) -> bool:
        """Note that secrets may be sent as these say; return whether that is news."""
        is_news = False
        for spec in specs:
            key = (spec.name, spec.bindings)
            if self._ends.get(key, 0.0) <= now:
                self._specs[key], self._ends[key] = spec, now + REPLACED_VALUE_LIFETIME
                is_news = True
        return is_news

    def replace(self, specs: Iterable[SecretSpec], now: float, is_carried: Callable[[str], bool]) -> None:
        """Note that these are in force now and no others.

        `is_carried` tells by name of secrets that running exchanges were sent with: those must stay.
        """
        kept = {(spec.name, spec.bindings): spec for spec in specs}
        ends = {
            key: min(end, now + REPLACED_VALUE_LIFETIME) for key, end in self._ends.items() if key not in kept
        }
        alive = [key for key, end in ends.items() if end > now or is_carried(key[0])]
        over = sorted(alive, key=ends.__getitem__)[-MAX_PAST_BINDINGS:]
        self._specs = {**{key: self._specs[key] for key in over}, **kept}
        self._ends = {**{key: ends[key] for key in over}, **dict.fromkeys(kept, math.inf)}

    def names_at(
        self, host: str, port: int, now: float, is_carried: Callable[[str], bool]
    ) -> tuple[str, ...]:
        """Return the names of the secrets that may come back from there."""
        names: dict[str, None] = {}
        for key, spec in self._specs.items():
            if spec.name in names or not spec.is_bound_to(host, port):
                continue
            if self._ends[key] > now or is_carried(spec.name):
                names[spec.name] = None
        return tuple(names)
