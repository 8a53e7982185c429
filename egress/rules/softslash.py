"""Denies on paths with `%2F`, where each one may be a slash or not.

Theory of operation. A rule with `encoded_slash: data` lets `%2F` through, and what stands behind the
proxy decides for each of them whether it ends a segment. A deny must hold on all those readings, and
their number doubles with every `%2F`. So they are not written out: the path is cut at both kinds of
slash, and a pattern is walked over the pieces, remembering every place that it can have reached. A
segment of the pattern may take several pieces, as long as only `%2F` stands between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from egress.rules.globs import PathGlob, segment_regex
from egress.rules.paths import MAX_ESCAPED_SLASHES


def deny_fits(glob: PathGlob, path: str) -> bool:
    """Whether the pattern of a deny matches some reading of a loosened path; doubt means yes."""
    if path.count("%2F") > MAX_ESCAPED_SLASHES:
        return True  # no canonical path has so many
    pieces, is_soft = _pieces(path)
    return any(_fits(spelling, pieces, is_soft) for spelling in glob.deny_spellings())


def _pieces(path: str) -> tuple[list[str], list[bool]]:
    """The path cut at `/` and `%2F`; and for each piece whether `%2F` stands behind it."""
    pieces: list[str] = []
    is_soft: list[bool] = []
    for segment in path.removeprefix("/").split("/"):
        parts = segment.split("%2F")
        pieces.extend(parts)
        is_soft.extend([True] * (len(parts) - 1) + [False])
    return pieces, is_soft


def _fits(segments: Sequence[str], pieces: list[str], is_soft: list[bool]) -> bool:
    reached = {0}
    for segment in segments:
        if not reached:
            return False
        if segment == "**":
            reached = set(range(min(reached), len(pieces) + 1))
            continue
        expression = re.compile(segment_regex(segment), re.IGNORECASE | re.ASCII)
        reached = {end for start in reached for end in _ends(expression, start, pieces, is_soft)}
    return len(pieces) in reached


def _ends(expression: re.Pattern[str], start: int, pieces: list[str], is_soft: list[bool]) -> Iterator[int]:
    """Where one segment of the pattern can end that begins at `start`."""
    for end in range(start + 1, len(pieces) + 1):
        if expression.fullmatch("%2F".join(pieces[start:end])):
            yield end
        if not is_soft[end - 1]:
            return
