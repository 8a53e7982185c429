"""What was seen, counted: lines that are alike are one, with a number and an example.

Bounded, because a sandbox chooses what is in a line: beyond so many different ones they are only
counted, and whoever reads the traffic says that it is not whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from egress.review.drafting.fast_exchange_parse import KEPT, ExchangeKind, ParsedExchange
from egress.review.drafting.observation import Observation, id_of, observe

MAX_KINDS = 200_000


@dataclass(slots=True)
class Occurrences:
    """How often something was seen, and the id of the last time."""

    count: int = 0
    example: str = ""


type Paths = dict[str, Occurrences]


@dataclass(slots=True)
class Traffic:
    """Everything that was seen in some time."""

    most: int = MAX_KINDS
    kinds: int = 0
    """How many different ones."""
    lines: int = 0
    """Requests, tunnels and refusals."""
    beyond: int = 0
    """Those that were not taken in, because too many different ones were seen before."""
    folded: int = 0
    """Refusals that the log itself only counted."""
    _paths: dict[Observation, Paths] = field(default_factory=dict, repr=False)
    """What was seen, each without its path, and how often on which path."""
    _cut: dict[ExchangeKind, Paths] = field(default_factory=dict, repr=False)
    """The same again, to be found without comparing."""

    @classmethod
    def of(
        cls,
        lines: Iterable[Mapping[str, object] | ParsedExchange],
        profile: str | None = None,
        most: int = MAX_KINDS,
    ) -> Traffic:
        """Count lines; with `profile`, those of sandboxes with this profile."""
        traffic = cls(most)
        for fields in lines:
            traffic.add(fields, profile)
        return traffic

    def add(self, line: Mapping[str, object] | ParsedExchange, profile: str | None = None) -> None:
        """Take in one line: its fields, or what was cut out of it."""
        if isinstance(line, ParsedExchange):
            self._add_cut(line, profile)
            return
        if line.get("event") == "folded":
            count = line.get("count")
            self.folded += count if type(count) is int and count > 0 else 0
            return
        one = observe(line)
        if one is not None and _is_of(one, profile):
            self._count(self._paths_of(replace(one, path="")), one.path, id_of(line))

    def _add_cut(self, cut: ParsedExchange, profile: str | None) -> None:
        paths = self._cut.get(cut.kind)
        if paths is None:
            if not _is_of(cut.kind.seen, profile):
                return
            if len(self._cut) >= KEPT:
                self._cut.clear()
            paths = self._cut[cut.kind] = self._paths_of(cut.kind.seen)
        self._count(paths, cut.path, cut.id)

    def _paths_of(self, one: Observation) -> Paths:
        # Beyond the bound nothing is kept, and what is counted there goes nowhere.
        return self._paths.get(one, {}) if self.kinds >= self.most else self._paths.setdefault(one, {})

    def _count(self, paths: Paths, path: str, example: str) -> None:
        self.lines += 1
        times = paths.get(path)
        if times is None:
            if self.kinds >= self.most:
                self.beyond += 1
                return
            self.kinds += 1
            times = paths[path] = Occurrences()
        times.count += 1
        times.example = example

    def missing(self, odd: int) -> tuple[str, ...]:
        """What is not among it, in words; `odd` lines could not be read."""
        found = []
        if odd:
            found.append(
                f"{counted(odd, 'line')} of the log could not be read: `egress log verify` says more"
            )
        if self.beyond:
            said = f"more were not taken in: more than {self.most} different ones came before"
            found.append(f"{counted(self.beyond, 'line')} {said}")
        if self.folded:
            found.append(
                f"{counted(self.folded, 'refusal')} more were only counted by the log, and are not known"
            )
        return tuple(found)

    def __iter__(self) -> Iterator[tuple[Observation, Occurrences]]:
        for one, paths in self._paths.items():
            for path, times in paths.items():
                yield replace(one, path=path), times


def _is_of(one: Observation, profile: str | None) -> bool:
    return profile is None or (one.profile or "default") == profile


def counted(number: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
