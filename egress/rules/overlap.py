"""Whether two path patterns have a path in common, and whether one takes in the other.

`may_meet` is exact for paths. `covers` is sound and not complete: when it says yes it is so, which is
what a lint needs that must not cry wolf.
"""

from __future__ import annotations

from functools import lru_cache

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
    return _segments_meet(one.segments, other.segments)


def _segments_meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    # Dynamic programming over suffixes: meets[j] answers for one[i:] and other[j:].
    width = len(other)
    below = [False] * (width + 1)
    for i in range(len(one), -1, -1):
        row = [False] * (width + 1)
        for j in range(width, -1, -1):
            if i == len(one) and j == width:
                row[j] = True
            elif i < len(one) and one[i] == "**":
                row[j] = below[j] or (j < width and row[j + 1])
            elif j < width and other[j] == "**":
                row[j] = row[j + 1] or (i < len(one) and below[j])
            elif i < len(one) and j < width:
                row[j] = below[j + 1] and _globs_meet(one[i], other[j])
        below = row
    return below[0]


@lru_cache(maxsize=4096)
def _globs_meet(one: str, other: str) -> bool:
    if one == "*" or other == "*":
        return not (one == "" or other == "")
    if "*" not in one and "*" not in other:
        return one == other
    width = len(other)
    below = [False] * (width + 1)
    for i in range(len(one), -1, -1):
        row = [False] * (width + 1)
        for j in range(width, -1, -1):
            if i == len(one) and j == width:
                row[j] = True
            elif i < len(one) and one[i] == "*":
                row[j] = below[j] or (j < width and row[j + 1])
            elif j < width and other[j] == "*":
                row[j] = row[j + 1] or (i < len(one) and below[j])
            elif i < len(one) and j < width:
                row[j] = below[j + 1] and one[i] == other[j]
        below = row
    return below[0]


def covers(one: PathGlob, other: PathGlob) -> bool:
    """Whether every path that `other` matches is matched by `one`; may say no where it is so."""
    return _segments_cover(one.segments, other.segments)


def _segments_cover(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    # The wildcards of `other` are taken as symbols that only wildcards of `one` can stand for.
    width = len(other)
    below = [False] * (width + 1)
    for i in range(len(one), -1, -1):
        row = [False] * (width + 1)
        for j in range(width, -1, -1):
            if i == len(one):
                row[j] = j == width
            elif one[i] == "**":
                row[j] = below[j] or (j < width and row[j + 1])
            elif j < width and other[j] != "**":
                row[j] = below[j + 1] and _glob_covers(one[i], other[j])
        below = row
    return below[0]


def _glob_covers(one: str, other: str) -> bool:
    if one == other:
        return True
    if one == "*":
        return other != ""
    if "*" not in one:
        return False
    width = len(other)
    below = [False] * (width + 1)
    for i in range(len(one), -1, -1):
        row = [False] * (width + 1)
        for j in range(width, -1, -1):
            if i == len(one):
                row[j] = j == width
            elif one[i] == "*":
                row[j] = below[j] or (j < width and row[j + 1])
            elif j < width and other[j] != "*":
                row[j] = below[j + 1] and one[i] == other[j]
        below = row
    return below[0]
