"""Blocks: some thousand lines that stand one behind the other in a file, as the index holds them.

A block is either full, and then it never changes again, or it is the open end of the newest file, and is
made anew whenever that has grown. Pure: it is given lines, and numbers for shapes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from egress.review.columns import NumberColumns, PlaceColumns
from egress.review.entry import NotALineError, OddKind
from egress.review.histogram import Counts, class_of
from egress.review.indexed_line import read
from egress.review.line_shape import LineShape
from egress.review.timestamps import HOUR

# A full block is the unit that a search skips or reads: these limits bound its memory and its latency.
MOST_LINES = 4096
MOST_BYTES = 8 * 1024 * 1024

Number = Callable[[LineShape], tuple[int, int]]
"""Gives a shape its number, and the number of its group."""


@dataclass(frozen=True, slots=True)
class Odd:
    """Bytes that are no line."""

    at: int
    size: int
    kind: OddKind


@dataclass(slots=True)
class Total:
    """Sums over the lines of a group in one hour."""

    requests: int = 0
    up: int = 0
    down: int = 0
    took: Counts = field(default_factory=dict)

    def add(self, other: Total) -> None:
        self.requests += other.requests
        self.up += other.up
        self.down += other.down
        for number, count in other.took.items():
            self.took[number] = self.took.get(number, 0) + count


@dataclass(slots=True)
class Block:
    """The lines of a block, as far as they are read."""

    at: int
    """Where it begins in its file."""
    number: Number
    size: int = 0
    places: PlaceColumns = field(default_factory=PlaceColumns)
    numbers: NumberColumns = field(default_factory=NumberColumns)
    odd: list[Odd] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    """What is searched of each line, as it stands in it."""
    requests: set[int] = field(default_factory=set)
    connections: set[int] = field(default_factory=set)
    totals: dict[tuple[int, int], Total] = field(default_factory=dict)
    """By hour and group."""

    @property
    def lines(self) -> int:
        return len(self.places.at)

    @property
    def is_full(self) -> bool:
        # Bytes that are no line count, too: a file full of them must not make a block without end.
        return self.lines + len(self.odd) >= MOST_LINES or self.size >= MOST_BYTES

    @property
    def shapes(self) -> bytes:
        """Every shape in it, once."""
        return array("I", sorted(set(self.places.shape))).tobytes()

    def skip(self, size: int) -> None:
        """Take a line that is too long."""
        self.odd.append(Odd(self.at + self.size, size, "huge"))
        self.size += size

    def take(self, lines: list[bytes], first: int = 0) -> int:
        """Take lines, given without their ends, from this one on until it is full; returns the next one."""
        # The bound methods are looked up once: this loop runs for each line of logs with many gigabytes.
        places, numbers, number = self.places, self.numbers, self.number
        at, shapes, moments = places.at.append, places.shape.append, places.moment.append
        counts, ups, downs, tooks = (
            numbers.requests.append,
            numbers.up.append,
            numbers.down.append,
            numbers.took.append,
        )
        texts, ids, connections = self.texts.append, self.requests.add, self.connections.add
        last = min(len(lines), first + MOST_LINES - self.lines - len(self.odd))
        size = self.size
        for index in range(first, last):
            # Checked before each line: a block may exceed the limit by one line, never by a whole piece.
            if size >= MOST_BYTES:
                last = index
                break
            line = lines[index]
            try:
                shape, moment, requests, up, down, took, request, connection, text = read(line)
            except NotALineError as error:
                self._pass_over(self.at + size, len(line) + 1, error.kind)
                size += len(line) + 1
                continue
            key = number(shape)
            at(size)
            shapes(key[0])
            moments(moment)
            counts(requests)
            ups(up)
            downs(down)
            tooks(took)
            texts(text)
            ids(request)
            connections(connection)
            # Sums are kept per hour and group, so that totals of a span never have to read the lines.
            if requests:
                self._count((moment // HOUR, key[1]), requests, up, down, took)
            size += len(line) + 1
        self.size = size
        return last

    def _pass_over(self, at: int, size: int, kind: OddKind) -> None:
        """Take what is no line: such that stand one behind the other are one, however many they are."""
        # Damage in a row becomes one entry: a foreign file has as many bad lines as its author likes.
        last = self.odd[-1] if self.odd else None
        if last is not None and last.kind == kind and last.at + last.size == at:
            self.odd[-1] = Odd(last.at, last.size + size, kind)
        else:
            self.odd.append(Odd(at, size, kind))

    def _count(self, key: tuple[int, int], requests: int, up: int, down: int, took: int) -> None:
        total = self.totals.get(key)
        if total is None:
            total = self.totals[key] = Total()
        total.requests += requests
        total.up += up
        total.down += down
        if took:
            number = class_of(took)
            total.took[number] = total.took.get(number, 0) + 1
