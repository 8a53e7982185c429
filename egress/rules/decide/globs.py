"""Globs: patterns for paths and for single values, compiled so that matching stays linear.

Theory of operation. `*` is any run inside one segment, a segment `**` is zero or more segments.
Naive translation to regular expressions backtracks exponentially. Two facts avoid it:

* After a wildcard, the leftmost place where the following fixed part fits is always good enough, so
  the search for it can be atomic, `(?>...)`: once found, it is never reconsidered.
* The part behind the last wildcard must fit at the end, so only the place that leaves exactly its length
  is tried.

Patterns over paths work on canonical paths, where an escape such as %2F is one character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from egress.rules.decide import paths
from egress.rules.decide.paths import MAX_ESCAPED_SLASHES
from egress.rules.language.report import MeaningError

ANY_CHARACTER = "(?:[^/%]|%[0-9A-F]{2})"
_HEX_START = frozenset("0123456789abcdefABCDEF")


class GlobError(MeaningError):
    """The pattern is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class PathGlob:
    """A path pattern in its canonical spelling."""

    text: str
    segments: tuple[str, ...]

    @property
    def is_everything(self) -> bool:
        return self.segments == ("**",)

    @property
    def is_literal(self) -> bool:
        return "*" not in self.text

    def regex(self) -> str:
        """Return an expression that matches exactly the paths of this pattern, without its end anchor."""
        return _path_regex(self.segments)

    def deny_regex(self) -> str:
        """Return the expression of a deny: every spelling of it, on loosened paths, anchored."""
        spellings = self.deny_spellings()
        # Their common beginning is written once, because each repetition would be compiled.
        shared = 0
        while all(len(each) > shared + 1 for each in spellings) and spellings[0][shared] != "**":
            if len({each[shared] for each in spellings}) > 1:
                break
            shared += 1
        ends = "|".join(f"{_path_regex(each[shared:])}\\Z" for each in spellings)
        return f"{_path_regex(spellings[0][:shared])}(?:{ends})"

    def deny_spellings(self) -> list[tuple[str, ...]]:
        """Return the segments a deny looks for, loosened.

        As written, with a slash more or less, and with a format behind the last segment that is named:
        servers take `/keys.json` for `/keys`, and some of them `/keys.`.
        """
        segments = tuple(paths.loosened_path(segment) for segment in self.segments)
        spellings = [segments]
        if segments[-1] == "":
            spellings.append(segments[:-1])
        if segments[-1] != "**":
            spellings.append((*segments, ""))
        # `/keys/**` matches `/keys`, so the segment before the run can be the last one.
        named = segments[:-1] if segments[-1] in ("", "**") else segments
        if named and named[-1] and not named[-1].endswith("*"):
            with_format = (*named[:-1], f"{named[-1]}.*")
            spellings += [with_format, (*with_format, "")]
        return spellings


def path_glob(text: str, *, encoded_slash: bool = False) -> PathGlob:
    """Parse a path pattern; raises `GlobError`."""
    if not text.startswith("/"):
        raise GlobError("a path pattern must begin with a slash", "put a / in front of it")
    if "?" in text:
        raise GlobError("a path pattern cannot contain a query", "use `query:` for parameters")
    if "\\" in text:
        raise GlobError("a path pattern cannot contain a backslash", "paths use /")
    try:
        # The pattern gets the spelling of a canonical path, or it could never match one.
        spelled = paths.canonical_path(paths.to_wire_text(text), strict=True, encoded_slash=encoded_slash)
    except paths.PathError as error:
        hint = "add `encoded_slash: data` to the rule" if "escaped slash" in str(error) else ""
        if " " in text.strip():
            hint = "write a space as %20"
        raise GlobError(f"no canonical path can match this pattern: {error}", hint) from None
    segments = tuple(spelled[1:].split("/"))
    for segment in segments:
        if "**" in segment and segment != "**":
            raise GlobError("** must be a whole segment", "use * for a part of a segment")
    return PathGlob(spelled, segments)


def _path_regex(segments: tuple[str, ...]) -> str:
    # Runs are the fixed segments between two `**`; several `**` in a row mean the same as one.
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            if runs[-1] or len(runs) == 1:
                runs.append([])
        else:
            runs[-1].append(segment)
    head = "".join("/" + segment_regex(segment) for segment in runs[0])
    if len(runs) == 1:
        return head
    middle = [_anywhere(run) for run in runs[1:-1]]
    return head + "".join(middle) + _at_the_end(runs[-1])


def _anywhere(run: list[str]) -> str:
    body = "".join("/" + segment_regex(segment) for segment in run)
    return f"(?>(?:/[^/]*)*?{body}(?=/|\\Z))"


def _at_the_end(run: list[str]) -> str:
    if not run:
        return "(?:/[^/]*)*"
    body = "".join("/" + segment_regex(segment) for segment in run)
    # Match all segments, then give back one at a time until exactly this run's number is left.
    return f"(?>(?:/[^/]*)*(?=(?:/[^/]*){{{len(run)}}}\\Z)){body}"


def segment_regex(segment: str) -> str:
    """Return an expression for one segment; it ends where the segment ends."""
    if "*" not in segment:
        return re.escape(segment)
    if segment == "*":
        return "[^/]+"
    first, *rest = segment.split("*")
    *middle, last = rest
    expression = re.escape(first)
    for piece in middle:
        if piece:
            expression += f"(?>{_run(piece)}*?{re.escape(piece)})"
    if not last:
        return expression + "[^/]*"
    return expression + f"(?>{_run(last)}*?{re.escape(last)}(?=/|\\Z))"


def _run(piece: str) -> str:
    """Return the class that a `*` before `piece` runs over.

    Only a piece that begins with a hex digit could match inside an escape; for any other piece the faster
    class matches the same.
    """
    return ANY_CHARACTER if piece[0] in _HEX_START else "[^/]"


# Single values --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ValueGlob:
    """A pattern for one value, such as a query parameter: `*` is any run, also an empty one."""

    text: str

    def matches(self, value: str, *, ignore_case: bool = False) -> bool:
        pattern = self.text
        if ignore_case:
            # Only ASCII: full case folding matches names that no server takes for equal.
            pattern, value = _ascii_lower(pattern), _ascii_lower(value)
        if "*" not in pattern:
            return value == pattern
        first, *middle, last = pattern.split("*")
        if len(value) < len(first) + len(last) or not value.startswith(first) or not value.endswith(last):
            return False
        at, end = len(first), len(value) - len(last)
        for piece in middle:
            found = value.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True


_LOWER = {ord(c): ord(c) + 32 for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def _ascii_lower(text: str) -> str:
    return text.translate(_LOWER)


# Denies on paths with `%2F`, each of which an upstream may read as a slash or not.
#
# Theory of operation. A rule with `encoded_slash: data` lets `%2F` through, and each server behind the proxy
# decides for itself whether `%2F` ends a segment. A deny must hold on all those readings, and their number
# doubles with every `%2F`. So the readings are not written out: the path is cut at both kinds of slash, and a
# pattern is walked over the pieces, remembering every place it can have reached. A segment of the pattern may
# take several pieces, as long as only `%2F` separates them.
def deny_fits_any_reading(glob: PathGlob, path: str) -> bool:
    """Report whether the pattern of a deny matches some reading of a loosened path; doubt means yes."""
    if path.count("%2F") > MAX_ESCAPED_SLASHES:
        return True  # no canonical path has so many
    pieces, is_soft = _cut_at_slashes(path)
    return any(_fits_pieces(spelling, pieces, is_soft) for spelling in glob.deny_spellings())


def _cut_at_slashes(path: str) -> tuple[list[str], list[bool]]:
    """Cut a path at `/` and `%2F`; report for each piece whether a `%2F` follows it."""
    pieces: list[str] = []
    is_soft: list[bool] = []
    for segment in path.removeprefix("/").split("/"):
        parts = segment.split("%2F")
        pieces.extend(parts)
        is_soft.extend([True] * (len(parts) - 1) + [False])
    return pieces, is_soft


def _fits_pieces(segments: Sequence[str], pieces: list[str], is_soft: list[bool]) -> bool:
    reached = {0}
    for segment in segments:
        if not reached:
            return False
        if segment == "**":
            reached = set(range(min(reached), len(pieces) + 1))
            continue
        expression = re.compile(segment_regex(segment), re.IGNORECASE | re.ASCII)
        reached = {end for start in reached for end in _segment_ends(expression, start, pieces, is_soft)}
    return len(pieces) in reached


def _segment_ends(
    expression: re.Pattern[str], start: int, pieces: list[str], is_soft: list[bool]
) -> Iterator[int]:
    """Yield each index at which a segment of the pattern that begins at `start` can end."""
    for end in range(start + 1, len(pieces) + 1):
        if expression.fullmatch("%2F".join(pieces[start:end])):
            yield end
        if not is_soft[end - 1]:
            return
