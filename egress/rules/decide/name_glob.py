"""Patterns for names with segments that are no paths: repositories and refs.

They read like patterns for paths: `*` matches within a segment, a segment `**` any number of segments. A name
may hold any character, and has no escapes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from egress.rules.decide.globs import PathGlob


@dataclass(frozen=True, slots=True)
class NameGlob:
    """A pattern for a name."""

    text: str

    def matches(self, name: str, *, ignore_case: bool = False) -> bool:
        """Report whether the pattern fits the whole name; case counts unless `ignore_case` is set."""
        return _compiled(self.text, ignore_case=ignore_case).fullmatch(_as_path(name)) is not None


def _as_path(name: str) -> str:
    # Expressions of paths take an escape for one character: a percent sign of a name is escaped like one.
    return "/" + name.replace("%", "%25")


@lru_cache(maxsize=4096)
def _compiled(text: str, *, ignore_case: bool) -> re.Pattern[str]:
    path = _as_path(text)
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    return re.compile(PathGlob(path, tuple(path[1:].split("/"))).regex(), flags)
