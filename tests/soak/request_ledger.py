"""Every request of a soak, by its number: begun, seen by an upstream, answered, and told by the log.

A run has millions of them, so each is a byte here and there, and no object. What cannot be told apart by
number, tunnels and refused connections, is counted.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

OPEN, ENDED, TOLD = 0, 1, 2
"""What is known of a request: its client still has it; its client has an end of it; the log has it, too."""
SETTLE_SECONDS: Final = 3.0
"""Seconds until an ended request has to stand in the log."""


@dataclass
class RequestLedger:
    """What clients and upstreams know, against what the log says."""

    state: bytearray = field(default_factory=bytearray)
    """By number."""
    seen: bytearray = field(default_factory=bytearray)
    told: bytearray = field(default_factory=bytearray)
    ended: list[tuple[float, int]] = field(default_factory=list)
    """When which ended that the log has not told yet."""
    requests: int = 0
    """That have ended."""
    doubled: int = 0
    strange: list[str] = field(default_factory=list)
    """Lines and answers that nobody can explain, in words."""
    tunnels: int = 0
    refusals: int = 0
    events: Counter[str] = field(default_factory=Counter)
    """Lines of the log, by what they tell."""
    codes: Counter[str] = field(default_factory=Counter)

    # What clients and upstreams tell

    def begin(self) -> int:
        """Return the number of a new request."""
        self.state.append(OPEN)
        self.seen.append(0)
        self.told.append(0)
        return len(self.state) - 1

    def end(self, number: int, now: float) -> None:
        """The client has its answer, or has left."""
        self.requests += 1
        self.state[number] = ENDED
        if not self.told[number]:
            self.ended.append((now, number))

    def saw(self, path: str) -> None:
        """A request has come to an upstream."""
        number = number_of(path)
        if number is not None:
            self.seen[number] += 1
            self.doubled += self.seen[number] > 1

    def wonder(self, what: str) -> None:
        """Keep something that must not be; the first of them are enough."""
        if len(self.strange) < 20:
            self.strange.append(what)

    # What the log tells

    def read(self, line: dict[str, object]) -> None:
        """Take a line of the log."""
        event = str(line["event"])
        self.events[event] += 1
        if "code" in line:
            self.codes[str(line["code"])] += 1
        if event == "exchange":
            self._exchange(line)
        elif event in {"lost", "gap", "dropped", "folded", "resumed", "reload.refused"}:
            self.wonder(f"the log has a line that it should not have: {line}")

    def _exchange(self, line: dict[str, object]) -> None:
        number = number_of(str(line["path"]))
        if number is None or number >= len(self.told):
            self.wonder(f"the log tells of a request that nobody made: {line['path']}")
            return
        self.told[number] += 1
        self.doubled += self.told[number] > 1

    # What comes of it

    def lost(self, now: float) -> int:
        """How many requests ended some time ago, and the log does not tell of them."""
        self.ended = [(at, number) for at, number in self.ended if not self.told[number]]
        return sum(now - at > SETTLE_SECONDS for at, _ in self.ended)

    @property
    def unseen(self) -> int:
        """How many came to an upstream, and stand in no line."""
        return sum(1 for seen, told in zip(self.seen, self.told, strict=True) if seen and not told)


def number_of(path: str) -> int | None:
    """The number in a path: `/small/17`."""
    last = path.rpartition("/")[2]
    return int(last) if last.isdecimal() else None


class Tail:
    """Reads the log as it grows, over the ends of its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = ""
        self._offset = 0

    def take(self) -> list[dict[str, object]]:
        """The lines that have come since."""
        lines = []
        for path in sorted(self._folder.glob("audit-*.jsonl")):
            if path.name < self._name:
                continue
            if path.name > self._name:
                self._name, self._offset = path.name, 0
            lines += self._rest(path)
        return lines

    def _rest(self, path: Path) -> list[dict[str, object]]:
        with path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]
