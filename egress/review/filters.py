"""Filters: which lines a reviewer wants to see. A line has to fit every filter that is set.

The fields to filter by come from the schema of the log. Each question is asked in two ways: of the shapes in
an index, in SQL, to find where to look; and of a line that was read, which is what counts. A test holds the
two to the same answer. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Final, Self

from egress.errors import UsageError
from egress.review.entry import VERDICTS, LogEntry
from egress.review.indexed_line import searched, written
from egress.review.line_fields import FIELDS_BY_NAME, LineField
from egress.review.line_shape import APART, LineShape, named, shape_of, texts_of_shape

_SPOKEN_VERDICTS: Final = {"allowed": "allow", "denied": "deny"}
_VERDICT_HINT: Final = "write `allow`, `deny` or `cut`"
_STATUS = re.compile(r"[0-9]{1,3}|[1-9]xx", re.ASCII)
# Hosts, verdicts and statuses are lower case in a line, methods upper case.
_LOWER: Final = ("host", "verdict", "status")
_UPPER: Final = ("method",)


class FilterError(UsageError):
    """A filter asks for what no line can have."""

    code = "log.filter"


class Filters:
    """Conditions on lines: `Filters(host="*.example.com", status="5xx")`. An empty text sets no condition."""

    __slots__ = ("grep", "hidden", "since", "until", "wanted")

    def __init__(
        self,
        *,
        grep: str = "",
        since: int | None = None,
        until: int | None = None,
        hidden: Collection[str] = (),
        **wanted: str,
    ) -> None:
        """Lines with the text `grep` in any value, made at `since` or later and before `until`.

        Times are in UTC microseconds. `wanted` has values by the names of fields. `hidden` are fields that
        the reader is not shown: a text is not found in them. Raises `FilterError`.
        """
        self.hidden = frozenset(hidden)
        self.grep = grep
        self.since = since
        self.until = until
        self.wanted: Mapping[str, str] = {name: text for name, text in wanted.items() if text}
        # Refused here, once: a filter that no line can fit would show an empty page, as if nothing had
        # happened.
        for name, text in self.wanted.items():
            if name not in FIELDS_BY_NAME:
                raise FilterError("there is no such filter", f"use one of: {', '.join(FIELDS_BY_NAME)}")
            if name == "verdict" and text not in VERDICTS:
                raise FilterError("there is no such verdict", _VERDICT_HINT)
            if FIELDS_BY_NAME[name].match == "status" and not _STATUS.fullmatch(text):
                raise FilterError("this is no status", "write one like `404`, or `5xx` for all of them")

    @classmethod
    def of(
        cls, texts: Mapping[str, str], since: int | None, until: int | None, hidden: Collection[str] = ()
    ) -> Self:
        """Read filters that a person typed, in any case. Raises `FilterError`."""
        # Times come as numbers already, relative to a clock that the caller has.
        read = {name: text for name, text in texts.items() if name not in ("since", "until")}
        read |= {name: read[name].lower() for name in _LOWER if name in read}
        read |= {name: read[name].upper() for name in _UPPER if name in read}
        verdict = read.get("verdict", "")
        read["verdict"] = _SPOKEN_VERDICTS.get(verdict, verdict)
        return cls(since=since, until=until, hidden=hidden, **read)

    def __eq__(self, other: object) -> bool:
        # By the filters that are set: an empty text and an absent one ask the same.
        return isinstance(other, Filters) and self.asked() == other.asked() and self.hidden == other.hidden

    __hash__ = None  # type: ignore[assignment]  # as of any mapping

    def __repr__(self) -> str:
        return f"Filters({', '.join(f'{name}={value!r}' for name, value in self.asked().items())})"

    def asked(self) -> dict[str, str | int]:
        """Every filter that is set, by its name."""
        rest = {"grep": self.grep, "since": self.since, "until": self.until}
        return {**self.wanted, **{name: value for name, value in rest.items() if value not in ("", None)}}

    def but(self, *, grep: str | None = None, **wanted: str) -> Filters:
        """The same time, other filters: a value replaces the one that is set, an empty text removes it."""
        text = self.grep if grep is None else grep
        asked = {**self.wanted, **wanted}
        return Filters(since=self.since, until=self.until, grep=text, hidden=self.hidden, **asked)

    @property
    def of_totals(self) -> Filters:
        """The filters by fields that totals are kept by."""
        return self.but(grep="", **{name: "" for name in self.wanted if not FIELDS_BY_NAME[name].in_totals})

    @property
    def is_of_totals(self) -> bool:
        """True when totals can answer it, but for the time."""
        return not self.grep and all(FIELDS_BY_NAME[name].in_totals for name in self.wanted)

    @property
    def has_shape(self) -> bool:
        """True when it asks for more than time and text."""
        return bool(self.wanted)

    @property
    def needle(self) -> str:
        """The text that is looked for, as it stands in a line."""
        return written(self.grep)

    def admits(self, entry: LogEntry) -> bool:
        """Say whether this line fits."""
        shape = shape_of(entry.fields)
        # The cheap conditions come first; the text has to go through every value of a line.
        return (
            self.admits_moment(entry.moment)
            and self.admits_shape(shape)
            and (not self.grep or self._is_in(entry, shape))
        )

    def _is_in(self, entry: LogEntry, shape: LineShape) -> bool:
        if self.hidden:
            shape = shape_of({name: value for name, value in entry.fields.items() if name not in self.hidden})
        # The index keeps a shape apart from the text of a line, so a search looks through both.
        texts = (*searched(entry, self.hidden), *map(written, texts_of_shape(shape)))
        return any(self.needle in text for text in texts)

    def admits_moment(self, moment: int) -> bool:
        return (self.since is None or moment >= self.since) and (self.until is None or moment < self.until)

    def admits_shape(self, shape: LineShape) -> bool:
        """Say whether lines of this shape fit."""
        values = named(shape)
        return all(_is_like(FIELDS_BY_NAME[name], text, values[name]) for name, text in self.wanted.items())

    def where(self) -> tuple[str, list[str | int]]:
        """The condition on a shape, or on a group, and its values."""
        # `1` keeps the condition valid SQL without any filter.
        parts, values = ["1"], list[str | int]()
        for name, text in self.wanted.items():
            # Values never stand in the SQL text: each one is bound, because a person typed it.
            part, of_part = _condition(FIELDS_BY_NAME[name], text)
            parts.append(part)
            values += of_part
        return " AND ".join(parts), values


def _is_like(field: LineField, text: str, value: str | int) -> bool:
    """Compare a value with a filter."""
    match field.match:
        case "glob":
            return fnmatchcase(str(value), _glob(text))
        case "member":
            # The marks around each name keep `git` from being found in `github`.
            return f"{APART}{text}{APART}" in str(value)
        case "rule":
            return value == text or str(value).endswith(f"#{text}")
        case "status":
            first, last = _statuses(text)
            return first <= int(value) <= last
        case _:
            return str(value) == text


def _condition(field: LineField, text: str) -> tuple[str, list[str | int]]:
    """The same in SQL."""
    match field.match:
        case "glob" if "*" in text:
            # An index serves `=` best, so only a real pattern becomes a GLOB.
            return f"{field.name} GLOB ?", [_glob(text)]
        case "member":
            return f"instr({field.name}, ?)", [f"{APART}{text}{APART}"]
        case "rule":
            condition = f"({field.name} = ? OR substr({field.name}, -length(?)) = ?)"
            return condition, [text, f"#{text}", f"#{text}"]
        case "status":
            return f"{field.name} BETWEEN ? AND ?", [*_statuses(text)]
        case _:
            return f"{field.name} = ?", [text]


def _statuses(text: str) -> tuple[int, int]:
    if text.endswith("xx"):
        first = int(text[0]) * 100
        return first, first + 99
    return int(text), int(text)


def _glob(text: str) -> str:
    """A pattern in which the star alone is special."""
    # A bracket or a question mark is special to both matchers, and would find other hosts.
    return text.replace("[", "[[]").replace("?", "[?]")


def trigrams(needle: str, most: int = 24) -> list[str]:
    """The pieces of three characters in a text, some of them for a long text: every match contains them."""
    # Every piece costs a lookup; some of them narrow a search nearly as well as all of them do.
    found = list(dict.fromkeys(needle[at : at + 3] for at in range(len(needle) - 2)))
    step = max(1, -(-len(found) // most))
    return found[::step]
