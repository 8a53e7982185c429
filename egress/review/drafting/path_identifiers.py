"""Recognition of identifiers in path segments: numbers, hashes, dates, credentials. Pure.

A segment is an identifier as a whole (`*`), or contains identifiers between fixed parts
(`report-2026-03-01.csv`, with `*` for the date), or is a word. A value that looks like a credential must
never be written into a file, however often it was seen.

The guess uses the shape only. `path_templates` decides how often a shape must occur before it becomes `*`. An
API version such as `v2` counts as a word, because another version is another interface.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from egress.rules.language.credential_guess import looks_like_credential

CREDENTIAL = "values that look like credentials"
ASTERISK = "names with an asterisk in them"
MAX_STARS = 16
"""A reviewer cannot judge a pattern with more asterisks."""

_VERSION_OF_API = re.compile(r"v[0-9]{1,2}(?:\.[0-9]{1,2})?")
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_DATE = r"(?:19|20)[0-9]{2}-[01][0-9]-[0-3][0-9](?:T[0-9:.]{4,15}Z?)?"
_SEMVER = (
    r"v?[0-9]{1,6}\.[0-9]{1,6}(?:\.[0-9]{1,6})?(?:(?:-|\+|\.?(?=[abrdp]))[0-9A-Za-z]{1,20}(?:\.[0-9]{1,6})*)?"
)
_HASH = r"(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,128}"
_NUMBER = r"[0-9]{1,40}"
_WHOLE = (
    ("UUIDs", re.compile(_UUID)),
    ("dates", re.compile(_DATE)),
    ("numbers", re.compile(_NUMBER)),
    ("hashes", re.compile(_HASH)),
    ("versions", re.compile(_SEMVER)),
)
_BASE62 = re.compile(r"[A-Za-z0-9_-]{8,}")
# Only between separators: a digit inside a word is a part of the word.
_WITHIN = re.compile(
    rf"(?<![0-9A-Za-z])(?:({_UUID})|({_DATE})|({_SEMVER})|({_HASH})|({_NUMBER}))(?![0-9A-Za-z])"
)
_WITHIN_KINDS = ("UUIDs", "dates", "versions", "hashes", "numbers")


@dataclass(frozen=True, slots=True)
class SegmentShape:
    """The generalised form of a segment, and the kind of value behind its `*`."""

    pattern: str
    kind: str
    must: bool = False
    """The literal text must not be written, however rare it is."""


def segment_shape(segment: str) -> SegmentShape | None:
    """Return the shape of a segment of a canonical path; None for a word."""
    if "*" in segment:
        # A literal asterisk cannot be written: in a pattern it matches any text.
        return SegmentShape(re.sub(r"\*+", "*", segment), ASTERISK, must=True)
    if looks_like_credential(segment):
        return SegmentShape("*", CREDENTIAL, must=True)
    if _VERSION_OF_API.fullmatch(segment):
        return None
    for kind, pattern in _WHOLE:
        if pattern.fullmatch(segment):
            return SegmentShape("*", kind)
    if _BASE62.fullmatch(segment) and _is_mixed(segment):
        return SegmentShape("*", "identifiers")
    return _within(segment)


def _is_mixed(text: str) -> bool:
    """True if digits and letters of both cases alternate more than in a word."""
    kinds = [c.isdigit() + 2 * c.isupper() for c in text if c.isalnum()]
    turns = sum(one != other for one, other in pairwise(kinds))
    return any(c.isdigit() for c in text) and turns >= 4


def _within(segment: str) -> SegmentShape | None:
    kinds: list[str] = []

    def star(match: re.Match[str]) -> str:
        kinds.append(_WITHIN_KINDS[(match.lastindex or 1) - 1])
        return "*"

    if "%" in segment:
        # The digits of an escape such as `%20` are not part of the text.
        return None
    pattern = re.sub(r"\*+", "*", _WITHIN.sub(star, segment))
    return SegmentShape(pattern, kinds[0]) if 0 < len(kinds) <= MAX_STARS and pattern != "*" else None
