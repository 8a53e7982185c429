"""Whether two path patterns have a path in common, and whether one takes in the other.

`may_meet` is exact for paths. `covers` is sound and not complete: when it says yes it is so, which is
what a lint needs that must not cry wolf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import eq

from egress.rules.globs import PathGlob
from egress.rules.predicates import Predicates


def rules_may_meet(one: Predicates, other: Predicates) -> bool:
    """Whether some request could fit both, as far as methods and paths can tell."""
    if one.methods is not None and other.methods is not None and one.methods.isdisjoint(other.methods):
        return False
    if one.paths is None or other.paths is None:
        return True
    return any(may_meet(a, b) for a in one.paths for b in other.paths)


def rule_covers(one: Predicates, other: Predicates) -> bool:
    """Whether every request that fits `other` fits `one`, decided on methods and paths alone."""
    if one.looks_inside or (
        one.methods is not None and (other.methods is None or not other.methods <= one.methods)
    ):
        return False
    if one.paths is None:
        return True
    return other.paths is not None and all(any(covers(a, b) for a in one.paths) for b in other.paths)


def may_meet(one: PathGlob, other: PathGlob) -> bool:
    """Whether there is a path that both patterns match."""
    return _meet(one.segments, other.segments, "**", _segments_meet)


def covers(one: PathGlob, other: PathGlob) -> bool:
    """Whether every path that `other` matches is matched by `one`; may say no where it is so."""
    return _cover(one.segments, other.segments, "**", _segment_covers)


# A path is a sequence of segments, with `**` for a run of any; a segment is a sequence of characters,
# with `*` for a run of any. So one walk serves both. Each fills a table from the ends: `row[j]` answers for
# `one[i:]` and `other[j:]`, and `below` is the row of `one[i + 1:]`.

Fits = Callable[[str, str], bool]


def _meet(one: Sequence[str], other: Sequence[str], wild: str, fits: Fits) -> bool:
    """Whether there is a sequence that both patterns match."""
    width = len(other)
    below = [False] * (width + 1)
    for i in range(len(one), -1, -1):
        row = [False] * (width + 1)
        for j in range(width, -1, -1):
            if i == len(one) and j == width:
                row[j] = True
            elif i < len(one) and one[i] == wild:
                row[j] = below[j] or (j < width and row[j + 1])
            elif j < width and other[j] == wild:
                row[j] = row[j + 1] or (i < len(one) and below[j])
            elif i < len(one) and j < width:
                row[j] = below[j + 1] and fits(one[i], other[j])
        below = row
    return below[0]


def _cover(one: Sequence[str], other: Sequence[str], wild: str, fits: Fits) -> bool:
    """Whether `one` matches all of `other`, whose wildcards count as symbols only a wildcard stands for."""
    width = len(other)
    below = [False] * (width + 1)
    for i in range(len(one), -1, -1):
        row = [False] * (width + 1)
        for j in range(width, -1, -1):
            if i == len(one):
                row[j] = j == width
            elif one[i] == wild:
                row[j] = below[j] or (j < width and row[j + 1])
            elif j < width and other[j] != wild:
                row[j] = below[j + 1] and fits(one[i], other[j])
        below = row
    return below[0]


@lru_cache(maxsize=4096)
def _segments_meet(one: str, other: str) -> bool:
    if "*" in (one, other):
        # A `*` alone is at least one character.
        return one != "" and other != ""
    return _meet(one, other, "*", eq)


def _segment_covers(one: str, other: str) -> bool:
    if one == "*":
        return other != ""
    return one == other or _cover(one, other, "*", eq)
