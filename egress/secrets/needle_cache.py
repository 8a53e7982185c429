"""Cache of compiled searches for sets of known values."""

from __future__ import annotations

from egress.scrub import JoinedNeedles, Needles
from egress.secrets.value_history import KnownValue

MAX_CACHED_SETS = 128
"""Cached sets: about one for each destination with its own secrets."""


class NeedleCache:
    """A cache from a set of known values to its needles."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[tuple[KnownValue, ...], Needles] = {(): Needles({})}

    def of(self, known: tuple[KnownValue, ...]) -> Needles:
        """Return the needles of every spelling of these values."""
        needles = self._made.get(known)
        if needles is None:
            needles = compile_needles(known)
            while len(self._made) >= MAX_CACHED_SETS:
                # The oldest after the first, which is the empty set.
                del self._made[list(self._made)[1]]
            self._made[known] = needles
        return needles

    def drop(self, name: str) -> None:
        """Drop every set with this secret, which has a new value now."""
        self._made = {
            known: needles for known, needles in self._made.items() if all(one.name != name for one in known)
        }


class LogNeedles:
    """The search for all known values, applied to every line of the log.

    The set changes with every new value, and each new value is logged: so each value is compiled alone, once,
    and compiled values stay.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        # A single attribute, since any thread may ask.
        self._last: tuple[tuple[KnownValue, ...], JoinedNeedles] = ((), JoinedNeedles(()))

    def of(self, known: tuple[KnownValue, ...]) -> JoinedNeedles:
        """Return the search for these values; the same object while the values are the same."""
        last, joined = self._last
        if last != known:
            joined = JoinedNeedles(one.value.needles(one.name) for one in known)
            self._last = (known, joined)
        return joined


def compile_needles(known: tuple[KnownValue, ...]) -> Needles:
    """Compile the needles of every spelling of these values."""
    if len(known) == 1:
        return known[0].value.needles(known[0].name)
    names: dict[bytes, tuple[str, ...]] = {}
    for one in known:
        for spelling in one.value.spellings:
            names[spelling] = (*names.get(spelling, ()), one.name)
    return Needles(names)
