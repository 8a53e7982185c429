"""Remember the destinations of each secret, past and present: answers from there are searched for it.

Theory of operation. Rules bind a secret to destinations. If new rules bind it elsewhere or drop it, the
secret has been sent to the old destinations, which can still repeat it: so they are searched for some time
longer, as for a replaced value. A binding counts from its first use: exchanges of new rules may run before
those rules are warmed, and exchanges of old rules long after.

The number of past bindings is bounded; the oldest are dropped first.

Pure bookkeeping, of bindings and never of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from egress.rules.decide.policy import Binding, SecretSpec
from egress.secrets.value_history import REPLACED_VALUE_LIFETIME

MAX_PAST_BINDINGS = 1024
"""Bindings of secrets that are remembered although no rule has them now."""

type Key = tuple[str, tuple[Binding, ...]]


class BindingHistory:
    """The bindings of all secrets, present and recent."""

    __slots__ = ("_ends", "_specs")

    def __init__(self) -> None:
        self._specs: dict[Key, SecretSpec] = {}
        self._ends: dict[Key, float] = {}

    def note(self, specs: Iterable[SecretSpec], now: float) -> bool:
        """Note that secrets may be sent by these specs; report whether that adds a destination."""
        is_news = False
        for spec in specs:
            key = (spec.name, spec.bindings)
            # Unexpired bindings are left alone: news for every request would rebuild the searches each time.
            if self._ends.get(key, 0.0) <= now:
                self._specs[key], self._ends[key] = spec, now + REPLACED_VALUE_LIFETIME
                is_news = True
        return is_news

    def replace(self, specs: Iterable[SecretSpec], now: float, is_carried: Callable[[str], bool]) -> None:
        """Note that only these bindings are in force from now on.

        `is_carried` reports by name whether running exchanges carry a secret: its bindings must stay.
        """
        kept = {(spec.name, spec.bindings): spec for spec in specs}
        ends = {
            key: min(end, now + REPLACED_VALUE_LIFETIME) for key, end in self._ends.items() if key not in kept
        }
        # Running exchanges keep a binding, however long they last.
        alive = [key for key, end in ends.items() if end > now or is_carried(key[0])]
        # Bounded, because rules that are reloaded often would otherwise add bindings without end.
        over = sorted(alive, key=ends.__getitem__)[-MAX_PAST_BINDINGS:]
        self._specs = {**{key: self._specs[key] for key in over}, **kept}
        self._ends = {**{key: ends[key] for key in over}, **dict.fromkeys(kept, math.inf)}

    def names_at(
        self, host: str, port: int, now: float, is_carried: Callable[[str], bool]
    ) -> tuple[str, ...]:
        """Return the names of the secrets that an answer from this destination may contain."""
        names: dict[str, None] = {}
        for key, spec in self._specs.items():
            if spec.name in names or not spec.is_bound_to(host, port):
                continue
            if self._ends[key] > now or is_carried(spec.name):
                names[spec.name] = None
        return tuple(names)
