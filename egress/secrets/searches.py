"""Compiled searches for sets of known values, made once for each set."""

from __future__ import annotations

from egress.scrub import Needles
from egress.secrets.trail import Known

MOST = 128
"""Sets that are kept: about one for each destination with secrets of its own."""


class Searches:
    """A cache from a set of known values to its needles."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[tuple[Known, ...], Needles] = {(): Needles({})}

    def of(self, known: tuple[Known, ...]) -> Needles:
        """Return the needles of every spelling of these values."""
        needles = self._made.get(known)
        if needles is None:
            needles = compiled(known)
            while len(self._made) >= MOST:
                # The oldest but the first, which is that of nothing.
                del self._made[list(self._made)[1]]
            self._made[known] = needles
        return needles

    def drop(self, name: str) -> None:
        """Forget every set with this secret in it: it has another value now."""
        self._made = {
            known: needles for known, needles in self._made.items() if all(one.name != name for one in known)
        }


def compiled(known: tuple[Known, ...]) -> Needles:
    """Make the needles of every spelling of these values."""
    names: dict[bytes, tuple[str, ...]] = {}
    for one in known:
        for spelling in one.value.spellings:
            names[spelling] = (*names.get(spelling, ()), one.name)
    return Needles(names)
