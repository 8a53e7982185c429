"""Compare patterns of paths and repositories: whether two can match the same, and whether one covers another.

`rules_may_meet` is exact for paths and repositories. `rule_covers` is sound but not complete: yes is always
right, so a lint built on it never raises a false alarm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from egress.rules.decide.git_predicate import GitPredicate
from egress.rules.decide.globs import PathGlob, ValueGlob
from egress.rules.decide.name_glob import NameGlob
from egress.rules.decide.predicates import Predicates

_ESCAPE = re.compile("%([0-9A-F]{2})")


def rules_may_meet(one: Predicates, other: Predicates) -> bool:
    """Report whether some request could fit both, judged by methods, paths and repositories of git."""
    if one.methods is not None and other.methods is not None and one.methods.isdisjoint(other.methods):
        return False
    # The paths of git are those of every repository.
    if isinstance(one.body, GitPredicate) and isinstance(other.body, GitPredicate):
        return _repositories_may_meet(one.body, other.body)
    if one.paths is None or other.paths is None:
        return True
    return any(paths_may_meet(a, b) for a in one.paths for b in other.paths)


def _repositories_may_meet(one: GitPredicate, other: GitPredicate) -> bool:
    """Report whether some fetch, or some push, is about a repository of both."""
    pushed = [each.push.repos if each.push is not None else None for each in (one, other)]
    # A deny of pushes without repositories is about all of them.
    may_push = None not in pushed and (
        () in pushed or any(_names_may_meet(a, b) for a in pushed[0] or () for b in pushed[1] or ())
    )
    return may_push or any(_names_may_meet(a, b) for a in one.fetch for b in other.fetch)


def _names_may_meet(one: NameGlob, other: NameGlob) -> bool:
    return _segments_may_meet(one.text.split("/"), other.text.split("/"))


def rule_covers(one: Predicates, other: Predicates) -> bool:
    """Report whether every request that fits `other` fits `one`, judged by methods and paths."""
    if not values_cover(one, other):
        return False
    if one.paths is None:
        return True
    return other.paths is not None and all(any(path_covers(a, b) for a in one.paths) for b in other.paths)


def values_cover(one: Predicates, other: Predicates) -> bool:
    """Report whether `one` covers `other` in all but its paths."""
    if one.looks_inside or one.body is not None:
        return False
    return one.methods is None or (other.methods is not None and other.methods <= one.methods)


def paths_may_meet(one: PathGlob, other: PathGlob) -> bool:
    """Report whether some path matches both patterns."""
    return _segments_may_meet(one.segments, other.segments)


def _segments_may_meet(one: Segments, other: Segments) -> bool:
    here, there = _runs(one), _runs(other)
    if len(here) == 1:
        return _fits(there, here[0], _segments_meet)
    if len(there) == 1:
        return _fits(here, there[0], _segments_meet)
    # Both have a `**`, which takes whatever the other wants in between; only the ends can disagree.
    return all(map(_segments_meet, here[0], there[0])) and all(
        map(_segments_meet, reversed(here[-1]), reversed(there[-1]))
    )


def path_covers(one: PathGlob, other: PathGlob) -> bool:
    """Report whether every path that `other` matches is matched by `one`; a no may be wrong."""
    return _fits(_runs(one.segments), other.segments, segment_covers)


# A path is a sequence of segments, with `**` for a run of any; a segment is a sequence of characters, with
# `*` for a run of any. In both, the first position that fits after a wildcard is always good enough, so no
# position is tried twice: a sandbox chooses paths, and drafts compare hundreds of them with each other.

Segments = Sequence[str]


def _runs(segments: Segments) -> list[Segments]:
    """Return the segments before, between and behind each `**`."""
    marks = [-1, *(at for at, segment in enumerate(segments) if segment == "**"), len(segments)]
    return [segments[here + 1 : there] for here, there in pairwise(marks)]


def _fits(runs: Sequence[Segments], segments: Segments, fits: Callable[[str, str], bool]) -> bool:
    """Report whether these runs, with anything between them, take all the segments."""
    first, *middle = runs
    if not middle:
        return len(first) == len(segments) and all(map(fits, first, segments))
    last = middle.pop()
    at, end = len(first), len(segments) - len(last)
    if end < at or not all(map(fits, first, segments)) or not all(map(fits, last, segments[end:])):
        # Each run at its first position: a later one can only leave less for the next run.
        return False
    for run in middle:
        places = range(at, end - len(run) + 1)
        found = next((place for place in places if all(map(fits, run, segments[place:]))), None)
        if found is None:
            return False
        at = found + len(run)
    return True


def _segments_meet(one: str, other: str) -> bool:
    if "*" in (one, other):
        # A bare `*` needs at least one character.
        return one != "" and other != ""
    if "*" not in one:
        return ValueGlob(other).matches(one)
    if "*" not in other:
        return ValueGlob(one).matches(other)
    starts = one.partition("*")[0], other.partition("*")[0]
    ends = one.rpartition("*")[2], other.rpartition("*")[2]
    return _either(str.startswith, *starts) and _either(str.endswith, *ends)


def _either(goes_with: Callable[[str, str], bool], one: str, other: str) -> bool:
    return goes_with(one, other) or goes_with(other, one)


def segment_covers(one: str, other: str) -> bool:
    """Report whether `one` matches all of `other`; a wildcard of `other` counts as an ordinary character."""
    if other == "**":
        return False
    # An escape is one character: `*2F` matches no `%2F`.
    return other != "" if one == "*" else ValueGlob(_unescaped(one)).matches(_unescaped(other))


def _unescaped(segment: str) -> str:
    """Return the segment with a single character for each escape."""
    return _ESCAPE.sub(lambda match: chr(0xE000 + int(match[1], 16)), segment) if "%" in segment else segment
