"""Logged traffic, grouped into equal observations with a count and an example.

A sandbox chooses the content of a line, so the number of groups is limited. Further lines are only counted,
and `missing` reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from egress.review.drafting.fast_exchange_parse import KEPT, ExchangeKind, ParsedExchange
from egress.review.drafting.observation import Observation, id_of, observe

MAX_KINDS = 200_000


@dataclass(slots=True)
class Occurrences:
    """A count, and the id of the last occurrence."""

    count: int = 0
    example: str = ""


type Paths = dict[str, Occurrences]


@dataclass(slots=True)
class Traffic:
    """The traffic of a period."""

    most: int = MAX_KINDS
    kinds: int = 0
    """Number of groups."""
    lines: int = 0
    """Requests, tunnels and refusals."""
    overflow: int = 0
    """Lines left out because of the limit on groups."""
    folded: int = 0
    """Refusals that the log counted without logging each."""
    _paths: dict[Observation, Paths] = field(default_factory=dict, repr=False)
    """Occurrences by path, for each observation without its path."""
    _cut: dict[ExchangeKind, Paths] = field(default_factory=dict, repr=False)
    """The same dictionaries by identity of a parsed kind, which saves hashing an observation per line."""

    @classmethod
    def of(
        cls,
        lines: Iterable[Mapping[str, object] | ParsedExchange],
        profile: str | None = None,
        most: int = MAX_KINDS,
    ) -> Traffic:
        """Count lines; with `profile`, only lines of sandboxes with this profile."""
        traffic = cls(most)
        for fields in lines:
            traffic.add(fields, profile)
        return traffic

    def add(self, line: Mapping[str, object] | ParsedExchange, profile: str | None = None) -> None:
        """Count one line, given as fields or as a parsed exchange."""
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
        # At the limit the fresh dictionary is thrown away, so memory stays bounded.
        return self._paths.get(one, {}) if self.kinds >= self.most else self._paths.setdefault(one, {})

    def _count(self, paths: Paths, path: str, example: str) -> None:
        self.lines += 1
        times = paths.get(path)
        if times is None:
            if self.kinds >= self.most:
                self.overflow += 1
                return
            self.kinds += 1
            times = paths[path] = Occurrences()
        times.count += 1
        times.example = example

    def missing(self, odd: int) -> tuple[str, ...]:
        """Describe the lines that are left out. `odd` is the number of unreadable lines."""
        found = []
        if odd:
            found.append(f"{counted(odd, 'line')} of the log could not be read: run `egress log verify`")
        if self.overflow:
            found.append(
                f"{counted(self.overflow, 'more line')} left out: over {self.most} different requests before"
            )
        if self.folded:
            verb = "was" if self.folded == 1 else "were"
            found.append(f"{counted(self.folded, 'more refusal')} {verb} counted, not logged one by one")
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
