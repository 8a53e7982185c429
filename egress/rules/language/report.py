"""Collect findings: cause, place and cure of each mistake.

Every reader of a part of a rule file gets a `Report` and goes on after a mistake, so that one run shows all
mistakes. Text of a person is quoted only through `quoted`, which keeps a message on one line and never shows
anything that looks like a credential.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from egress.rules.language.document import Document, ValuePath, safe_excerpt
from egress.types import Finding, Place, Severity

_MAX_COMPARED_WORDS: Final = 100
_MAX_COMPARED_CHARS: Final = 64


class MeaningError(ValueError):
    """The text has the right shape but no valid meaning. The message never quotes the text."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(slots=True)
class Report:
    """The findings of one run over all files."""

    findings: list[Finding] = field(default_factory=list)

    def error(self, place: Place, message: str, hint: str = "") -> None:
        self.findings.append(Finding(place, Severity.ERROR, message, hint))

    def warning(self, place: Place, message: str, hint: str = "", *, is_idle: bool = False) -> None:
        self.findings.append(Finding(place, Severity.WARNING, message, hint, is_idle))

    def notice(self, place: Place, message: str, hint: str = "") -> None:
        self.findings.append(Finding(place, Severity.NOTICE, message, hint))

    @property
    def error_count(self) -> int:
        return sum(finding.severity is Severity.ERROR for finding in self.findings)

    @property
    def has_errors(self) -> bool:
        return self.error_count > 0


@dataclass(frozen=True, slots=True)
class DocumentCursor:
    """A part of a document: the part that a function compiles, and the place of its findings."""

    report: Report
    document: Document
    path: ValuePath = ()

    def __truediv__(self, step: str | int) -> DocumentCursor:
        return DocumentCursor(self.report, self.document, (*self.path, step))

    @property
    def place(self) -> Place:
        return self.document.place(self.path)

    @property
    def key_place(self) -> Place:
        return self.document.place(self.path, of_key=True)

    def error(self, message: str, hint: str = "") -> None:
        self.report.error(self.place, message, hint)

    def key_error(self, message: str, hint: str = "") -> None:
        self.report.error(self.key_place, message, hint)

    def warning(self, message: str, hint: str = "") -> None:
        self.report.warning(self.place, message, hint)

    def parse[T, V: int | str](self, parser: Callable[[V], T], value: V | None) -> T | None:
        """Parse a value, if there is any; return None after reporting that it has no valid meaning."""
        if value is None:
            return None
        try:
            return parser(value)
        except MeaningError as error:
            self.error(error.message, error.hint)
            return None


def quoted(text: object) -> str:
    """Quote a person's own text in backquotes, unless it looks like a credential."""
    return f"`{safe_excerpt(str(text))}`"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known word, or with all known words if there are few."""
    words = known if isinstance(known, Collection) else list(known)
    # Compare in lower case: a wrong case is the most likely mistake.
    meant = word.lower()
    lower = {other.lower(): other for other in _comparable(meant, words)}
    close = difflib.get_close_matches(meant, sorted(lower), n=1, cutoff=0.6)
    if close:
        return f"did you mean {quoted(lower[close[0]])}?"
    if 0 < len(words) <= 12:
        return "known here: " + ", ".join(quoted(other) for other in sorted(words))
    return ""


def _comparable(meant: str, words: Collection[str]) -> Iterator[str]:
    """Choose the words to compare with. Comparing is slow, and a file may hold thousands of mistakes."""
    if len(meant) > _MAX_COMPARED_CHARS:
        return iter(())
    if len(words) <= _MAX_COMPARED_WORDS:
        return (word for word in words if len(word) <= _MAX_COMPARED_CHARS)
    near = (word for word in words if abs(len(word) - len(meant)) < 3 and word[:1].lower() == meant[:1])
    return itertools.islice(near, _MAX_COMPARED_WORDS)
