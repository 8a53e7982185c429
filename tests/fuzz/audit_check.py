"""The record of a proxy under fuzz, read as it is written, and held against what was seen to happen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.fuzz.hosts import MARK

USUAL: Final = frozenset(
    {"started", "exchange", "refusal", "folded", "tunnel", "reloaded", "rotated", "reload.refused"}
)
Mark = tuple[int, int]


class AuditCheck:
    """Follows the files of an audit log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.folded = 0
        self.allowed: Counter[Mark | None] = Counter()
        """Exchanges that were let through, by mark."""
        self.lines: Counter[Mark | None] = Counter()
        """All exchanges, by mark."""
        self.fresh: set[Mark | None] = set()
        """Marks of lines that nobody has looked at yet."""
        self.answered: set[Mark] = set()
        """Those of which the host's own answer was passed on."""
        self._ids: set[str] = set()
        self._read: dict[Path, int] = {}

    def turn(self) -> list[tuple[int | None, str]]:
        """Read on; returns what must not stand there, and the case it is about where that is known."""
        return [wrong for line in self._lines() for wrong in self._take(line)]

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Ids that clients were told, and that no line knows."""
        return [each for each in ids if each not in self._ids]

    def _lines(self) -> Iterator[dict[str, object]]:
        for path in sorted(self.folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            # The last line may be under way.
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.splitlines():
                yield json.loads(line)

    def _take(self, line: dict[str, object]) -> Iterator[tuple[int | None, str]]:
        event, code = str(line["event"]), str(line.get("code", ""))
        self.events[event] += 1
        if code:
            self.codes[code] += 1
        found = MARK.search(str(line.get("path", "")))
        mark = (int(found[1]), int(found[2])) if found else None
        case = mark[0] if mark else None
        if event not in USUAL:
            yield case, f"the record has {event}: {line}"
        if code == "internal":
            yield case, f"internal: {line}"
        if event == "folded":
            self.folded += int(str(line["count"]))
        if event == "exchange":
            self.lines[mark] += 1
            self.fresh.add(mark)
        if event == "exchange" and line["verdict"] != "deny":
            self.allowed[mark] += 1
            if mark and code == "rule.allowed":
                self.answered.add(mark)
        # A connection has an id of its own, and so has every exchange on it.
        each = str(line.get("request" if event == "exchange" else "connection") or "")
        if each and each in self._ids:
            yield case, f"two lines of one id: {line}"
        self._ids.add(each)
