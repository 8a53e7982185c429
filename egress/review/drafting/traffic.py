"""What was seen, counted: lines that are alike are one, with a number and an example.

Bounded, because a sandbox chooses what is in a line: beyond so many different ones they are only
counted, and whoever reads the traffic says that it is not whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from egress.review.drafting.seen import Seen, id_of, seen

MOST = 200_000


@dataclass(slots=True)
class Times:
    """How often something was seen, and the id of the last time."""

    count: int = 0
    example: str = ""


@dataclass(slots=True)
class Traffic:
    """Everything that was seen in some time."""

    most: int = MOST
    seen: dict[Seen, Times] = field(default_factory=dict)
    lines: int = 0
    """Requests, tunnels and refusals."""
    beyond: int = 0
    """Those that were not taken in, because too many different ones were seen before."""
    folded: int = 0
    """Refusals that the log itself only counted."""

    @classmethod
    def of(
        cls, lines: Iterable[Mapping[str, object]], profile: str | None = None, most: int = MOST
    ) -> Traffic:
        """Count lines; with `profile`, those of sandboxes with this profile."""
        traffic = cls(most)
        for fields in lines:
            traffic.add(fields, profile)
        return traffic

    def add(self, fields: Mapping[str, object], profile: str | None = None) -> None:
        """Take in one line."""
        if fields.get("event") == "folded":
            count = fields.get("count")
            self.folded += count if type(count) is int and count > 0 else 0
            return
        one = seen(fields)
        if one is None or (profile is not None and (one.profile or "default") != profile):
            return
        self.lines += 1
        times = self.seen.get(one)
        if times is None:
            if len(self.seen) >= self.most:
                self.beyond += 1
                return
            times = self.seen[one] = Times()
        times.count += 1
        times.example = id_of(fields)

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

    def __iter__(self) -> Iterator[tuple[Seen, Times]]:
        return iter(self.seen.items())


def counted(number: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
