"""Lines of the log, grouped for a reviewer: equal ones in one row, denials by host and reason. Pure.

A loop in a sandbox writes the same line over and over, and each run adds a start and a stop of its proxy.
One by one they push everything else off the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from egress.review import LogEntry

QUIET_EVENTS: Final = frozenset(
    {"started", "stopped", "reloaded", "rotated", "sandbox.added", "sandbox.removed"}
)
"""Events of a proxy that works as it should. The list leaves them out unless it is asked for them."""
MAX_EXAMPLES: Final = 3
"""Paths and sandboxes that a group names; it counts the others."""


@dataclass(frozen=True, slots=True)
class FoldedRow:
    """Lines that follow each other and say the same, newest first."""

    entries: tuple[LogEntry, ...]

    @property
    def newest(self) -> LogEntry:
        return self.entries[0]

    @property
    def oldest(self) -> LogEntry:
        return self.entries[-1]

    @property
    def count(self) -> int:
        return len(self.entries)


@dataclass(slots=True)
class DenialGroup:
    """Requests to one host that were stopped for one reason."""

    newest: LogEntry
    count: int = 0
    paths: dict[str, int] = field(default_factory=dict)
    """How often each method and path was stopped, with the part of its body, such as a ref."""
    sandboxes: dict[str, int] = field(default_factory=dict)

    @property
    def examples(self) -> list[str]:
        """The paths that were stopped most often."""
        return _most(self.paths)

    @property
    def others(self) -> int:
        """How many paths are not among the examples."""
        return len(self.paths) - len(self.examples)

    @property
    def sandbox_examples(self) -> list[str]:
        return _most(self.sandboxes)

    @property
    def other_sandboxes(self) -> int:
        return len(self.sandboxes) - len(self.sandbox_examples)

    def add(self, entry: LogEntry) -> None:
        """Count a line of this group, older than those before it."""
        path = " ".join(filter(None, (entry.text("method"), entry.text("path"), entry.body_item)))
        self.count += 1
        for counts, name in ((self.paths, path), (self.sandboxes, entry.text("sandbox"))):
            if name:
                counts[name] = counts.get(name, 0) + 1


def _most(counts: dict[str, int]) -> list[str]:
    return sorted(counts, key=lambda name: -counts[name])[:MAX_EXAMPLES]


def folded(entries: Sequence[LogEntry]) -> list[FoldedRow]:
    """Join lines that follow each other and say the same."""
    rows: list[list[LogEntry]] = []
    for entry in entries:
        if rows and _said(rows[-1][0]) == _said(entry) is not None:
            rows[-1].append(entry)
        else:
            rows.append([entry])
    return [FoldedRow(tuple(row)) for row in rows]


def _said(entry: LogEntry) -> tuple[object, ...] | None:
    """Everything that a row shows but the time; None for a line that stands alone."""
    if not entry.verdict:
        return None
    names = ("event", "sandbox", "method", "host", "port", "path", "verdict", "status", "code", "rule")
    return (*(entry.fields.get(name) for name in names), entry.secrets, entry.body_item)


def denial_groups(entries: Iterable[LogEntry]) -> list[DenialGroup]:
    """Group denials, newest first, by host, reason and rule; the largest group comes first."""
    groups: dict[tuple[str, ...], DenialGroup] = {}
    for entry in entries:
        key = (entry.verdict, *(entry.text(name) for name in ("host", "code", "rule")))
        groups.setdefault(key, DenialGroup(entry)).add(entry)
    return sorted(groups.values(), key=lambda group: -group.count)
