"""Filters: which lines a reviewer wants to see. All that are set must hold.

The same question is asked in two ways: of the shapes in an index, in SQL, to find where to look; and of a
line that was read, which is what counts. A test holds the two to the same answer. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Final, Self

from egress.errors import UsageError
from egress.review.entry import LogEntry
from egress.review.fast_parse import searched, written
from egress.review.line_shape import APART, LineShape, shape_of

VERDICTS: Final = ("allow", "deny")
_WORDS: Final = {"allowed": "allow", "denied": "deny"}
"""What people say for them."""
_STATUS = re.compile(r"[0-9]{1,3}|[1-9]xx", re.ASCII)
BY_NAME: Final = ("sandbox", "profile", "verdict", "method", "code", "event", "policy")
"""What has to be equal."""
BEYOND_GROUPS: Final = ("method", "status", "policy", "grep")
"""What roll-ups know nothing of."""


class FilterError(UsageError):
    """A filter asks for what no line can have."""

    code = "log.filter"


@dataclass(frozen=True, slots=True)
class Filters:
    """Which lines. An empty text asks for nothing."""

    sandbox: str = ""
    host: str = ""
    """A whole name; `*` stands for any text."""
    verdict: str = ""
    secret: str = ""
    status: str = ""
    """`404`, or `5xx`."""
    rule: str = ""
    """`api.github.com#read`, or `read` alone."""
    method: str = ""
    code: str = ""
    event: str = ""
    profile: str = ""
    policy: str = ""
    grep: str = ""
    """A text that stands in any value of the line, in capitals or not."""
    since: int | None = None
    """UTC microseconds; lines made then or later."""
    until: int | None = None
    """Lines made before."""

    @classmethod
    def of(cls, texts: Mapping[str, str], since: int | None, until: int | None) -> Self:
        """Those that a person typed, in capitals or not. Raises `FilterError`."""
        verdict = texts["verdict"].lower()
        return cls(
            sandbox=texts["sandbox"],
            host=texts["host"].lower(),
            verdict=_WORDS.get(verdict, verdict),
            secret=texts["secret"],
            status=texts["status"].lower(),
            rule=texts["rule"],
            method=texts["method"].upper(),
            code=texts["code"],
            event=texts["event"],
            grep=texts["grep"],
            since=since,
            until=until,
        )

    def __post_init__(self) -> None:
        if self.verdict not in ("", *VERDICTS):
            raise FilterError("there is no such verdict", "write `allow` or `deny`")
        if self.status and not _STATUS.fullmatch(self.status):
            raise FilterError("this is no status", "write one like `404`, or `5xx` for all of them")

    @property
    def is_of_groups(self) -> bool:
        """Whether roll-ups can answer it, but for the time."""
        return not any(getattr(self, name) for name in BEYOND_GROUPS)

    @property
    def has_shape(self) -> bool:
        """Whether it asks for anything but time and text."""
        kept = ("grep", "since", "until")
        return any(getattr(self, field.name) for field in fields(self) if field.name not in kept)

    @property
    def needle(self) -> str:
        """The text that is looked for, as it stands in a line."""
        return written(self.grep)

    def admits(self, entry: LogEntry) -> bool:
        """Whether it wants this line."""
        return (
            self.admits_moment(entry.moment)
            and self.admits_shape(shape_of(entry.fields))
            and (not self.grep or self._is_in(entry))
        )

    def _is_in(self, entry: LogEntry) -> bool:
        texts = (*searched(entry), *map(written, shape_of(entry.fields).texts))
        return any(self.needle in text for text in texts)

    def admits_moment(self, moment: int) -> bool:
        return (self.since is None or moment >= self.since) and (self.until is None or moment < self.until)

    def admits_shape(self, shape: LineShape) -> bool:
        """Whether it wants lines of this shape."""
        return (
            all(not (want := getattr(self, name)) or want == getattr(shape, name) for name in BY_NAME)
            and (not self.host or fnmatchcase(shape.host, _glob(self.host)))
            and (not self.secret or f"{APART}{self.secret}{APART}" in shape.secrets)
            and (not self.rule or shape.rule == self.rule or shape.rule.endswith(f"#{self.rule}"))
            and (not self.status or self._status[0] <= shape.status <= self._status[1])
        )

    @property
    def _status(self) -> tuple[int, int]:
        if self.status.endswith("xx"):
            first = int(self.status[0]) * 100
            return first, first + 99
        return int(self.status), int(self.status)

    def where(self) -> tuple[str, list[str | int]]:
        """The condition on a shape, or on a group, and its values."""
        parts: list[str] = ["1"]
        values: list[str | int] = []
        for name in BY_NAME:
            if wanted := getattr(self, name):
                parts.append(f"{name} = ?")
                values.append(wanted)
        if self.host:
            is_plain = "*" not in self.host
            parts.append("host = ?" if is_plain else "host GLOB ?")
            values.append(self.host if is_plain else _glob(self.host))
        if self.secret:
            parts.append("instr(secrets, ?)")
            values.append(f"{APART}{self.secret}{APART}")
        if self.rule:
            parts.append("(rule = ? OR substr(rule, -length(?)) = ?)")
            values += [self.rule, f"#{self.rule}", f"#{self.rule}"]
        if self.status:
            parts.append("status BETWEEN ? AND ?")
            values += self._status
        return " AND ".join(parts), values


def _glob(text: str) -> str:
    """A pattern in which the star alone is special."""
    return text.replace("[", "[[]").replace("?", "[?]")


def trigrams(needle: str, most: int = 24) -> list[str]:
    """What every text with the needle in it has too: its pieces of three characters, some of a long one."""
    found = list(dict.fromkeys(needle[at : at + 3] for at in range(len(needle) - 2)))
    step = max(1, -(-len(found) // most))
    return found[::step]
