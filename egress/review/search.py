"""Finding lines by an index: which blocks can hold what is wanted, and which lines of these.

Blocks are asked first, newest first: by time, by the shapes that come up in them, by the pieces of a text.
What is left is read from the files, parsed, and asked again: the lines are the truth, and what an index
says of a line that is not there any more leads nowhere.

How much is read for one page is bounded. A page that ends before enough was found says where to go on.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import batched
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Self

from egress.audit.chain import MAX_LINE_BYTES
from egress.review.columns import DamagedError, PlaceColumns, unpacked
from egress.review.entry import LogEntry, NotALineError, parse
from egress.review.filters import FilterError, Filters, trigrams
from egress.review.line_fields import TEXT_FIELDS
from egress.review.log_files import FILE_BITS, LogFiles, chain_key, file_number

BUDGET = 256 * 1024 * 1024
"""Bytes of lines that are looked through for one page."""
MAX_CURSOR_CHARS = 64
MAX_OPEN_FILES = 32
"""Files that a reader keeps open: lines of several chains take turns."""
LATEST = 2**62
"""Later than any moment, and larger than any number of a file."""
_CHAINS = f"SELECT DISTINCT file >> {FILE_BITS} FROM block"  # noqa: S608 - a number of ours
_AT_ONCE = 500
"""Values in one question to SQLite, which takes a bounded number."""


class LinePlace(NamedTuple):
    """The file of a line, by its number in the whole log, and its offset."""

    file: int
    at: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a place that was shown, such as `1:2048`. Raises `FilterError`."""
        return cls(*_numbers(text, 2))


class Cursor(NamedTuple):
    """A moment and a place in the log, in the order of all chains: what is wanted stands before it."""

    moment: int
    """UTC microseconds."""
    file: int
    at: int

    def __str__(self) -> str:
        return f"{self.moment}:{self.file}:{self.at}"

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a cursor that was shown. Raises `FilterError`."""
        return cls(*_numbers(text, 3))


def _numbers(text: str, count: int) -> list[int]:
    # The text comes back from a URL, so it is read as strictly as any input.
    parts = text.split(":")
    if len(text) > MAX_CURSOR_CHARS or len(parts) != count or not text.isascii():
        parts = [""]
    if not all(part.isdecimal() for part in parts):
        raise FilterError("this is no place in the log", "take the one that the page before gave")
    return [min(int(part), 2**62) for part in parts]


@dataclass(frozen=True, slots=True)
class IndexedBlock:
    """A block, as far as choosing needs it."""

    key: int
    file: int
    at: int
    size: int
    lines: int
    first: int
    last: int
    is_open: bool
    shapes: bytes


class EntryReader:
    """Reads single lines of the files of a log, which may go away meanwhile."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known = LogFiles({})
        self._open: dict[int, BinaryIO | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def entry(self, number: int, at: int) -> LogEntry | None:
        """The line that begins there; None when none does."""
        file = self._opened(number)
        if file is None:
            return None
        file.seek(at)
        line = file.readline(MAX_LINE_BYTES + 1)
        if not line.endswith(b"\n"):
            return None
        try:
            return parse(line[:-1], number, at)
        except NotALineError:
            return None

    def bytes(self, number: int, at: int, size: int) -> bytes:
        """So many bytes from there, or as many as there are."""
        file = self._opened(number)
        if file is None:
            return b""
        file.seek(at)
        return file.read(size)

    def _opened(self, number: int) -> BinaryIO | None:
        if number not in self._open:
            if len(self._open) >= MAX_OPEN_FILES:
                self._close()
            self._open[number] = self._found(number)
        return self._open[number]

    def _found(self, number: int) -> BinaryIO | None:
        # Listed when the first line is read, and again for a file that began since.
        if self._known.get(number) is None:
            self._known = LogFiles.of(self._directory)
        file = self._known.get(number)
        try:
            return None if file is None else file.path.open("rb")
        except FileNotFoundError:
            return None

    def _close(self) -> None:
        for file in self._open.values():
            if file is not None:
                file.close()
        self._open.clear()


class FoundPlace(NamedTuple):
    """A step of a search through a chain."""

    order: int
    """A moment, by which the lines of several chains are merged; never later than that of a newer line."""
    file: int
    at: int
    kind: Literal["line", "block", "end"] = "line"
    """A line that the index takes for wanted, the edge of a block not yet opened, the end of a page."""


class PageStart(NamedTuple):
    """Where a page begins in one of the chains, given where it begins in all of them."""

    order: int | None = None
    """The order of the line before the page."""
    latest: int = LATEST
    """The page begins with the newest line of the chain that is not later, or whose block is not."""
    end: tuple[int, int] = (LATEST, 0)
    """The page ends before this place."""

    @classmethod
    def of(cls, chain: int, before: Cursor | None) -> Self:
        if before is None:
            return cls()
        own = chain_key(before.file)
        if chain == own:
            return cls(before.moment, end=(before.file, before.at))
        # Of lines with equal order those of the higher chain come first, as in the merge of the page before.
        return cls(latest=before.moment - (chain > own))


class IndexSearch:
    """A search for lines by an index."""

    def __init__(self, connection: sqlite3.Connection, reader: EntryReader, filters: Filters) -> None:
        self._connection = connection
        self._reader = reader
        self._filters = filters
        self._needle = filters.needle.encode("ascii")
        self._shaped: set[int] | None = None
        self.cursor = Cursor(LATEST, LATEST, 0)
        """Where the next page would begin."""
        self.read = 0
        """Bytes of lines that were looked through."""

    # Shapes and blocks --------------------------------------------------------------------------

    def shapes(self) -> set[int] | None:
        """The shapes that are wanted; None for all."""
        if not self._filters.has_shape:
            return None
        where, values = self._filters.where()
        rows = self._connection.execute(f"SELECT id FROM shape WHERE {where}", values)  # noqa: S608
        return {key for (key,) in rows}

    def blocks(
        self, chain: int | None = None, before: Cursor | None = None, *, is_forward: bool = False
    ) -> Iterator[IndexedBlock]:
        """The blocks of a chain, or of all, that can hold what is wanted: newest first, or oldest first."""
        wanted = self.shapes()
        if wanted is not None and not wanted:
            return
        texts = self._with_text()
        for held in self._in_order(chain, before, is_forward=is_forward):
            # Open blocks are not in the text index, so they are always read.
            if texts is not None and not held.is_open and held.key not in texts:
                continue
            if wanted is None or not wanted.isdisjoint(array("I", held.shapes)):
                yield held

    def _in_order(
        self, chain: int | None, before: Cursor | None, *, is_forward: bool
    ) -> Iterator[IndexedBlock]:
        # `1` keeps the condition valid SQL without any part.
        parts, values = ["1"], list[int]()
        if self._filters.since is not None:
            parts.append("last >= ?")
            values.append(self._filters.since)
        if self._filters.until is not None:
            parts.append("first < ?")
            values.append(self._filters.until)
        if chain is not None:
            parts.append("file BETWEEN ? AND ?")
            values += (file_number(chain, 0), file_number(chain + 1, 0) - 1)
        if before is not None and chain_key(before.file) == chain:
            parts.append("(file, at) < (?, ?)")
            values += (before.file, before.at)
        order = "ASC" if is_forward else "DESC"
        # A single query: the writer of the index is not kept waiting by a slow reader.
        rows = self._connection.execute(
            "SELECT id, file, at, size, lines, first, last, is_open, shapes FROM block"  # noqa: S608 - our own
            f" WHERE {' AND '.join(parts)} ORDER BY file {order}, at {order}",
            values,
        )
        while some := rows.fetchmany(256):
            for key, file, at, size, lines, first, last, is_open, shapes in some:
                yield IndexedBlock(key, file, at, size, lines, first, last, bool(is_open), shapes)

    def _with_text(self) -> set[int] | None:
        """The full blocks whose texts have every piece of what is looked for; None where it is too short."""
        pieces = trigrams(self._filters.needle)
        if not pieces:
            return None
        # Quotes are doubled: in the text to match, a quote would end the piece and begin an operator.
        asked = " AND ".join('"' + piece.replace('"', '""') + '"' for piece in pieces)
        rows = self._connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (asked,))
        return {key for (key,) in rows}

    # Lines --------------------------------------------------------------------------------------

    def places(self, held: IndexedBlock, wanted: set[int] | None) -> tuple[PlaceColumns, list[int]] | None:
        """The columns of a block, and which of its lines the index takes for wanted, in order."""
        query = "SELECT places FROM lines WHERE block = ?"
        row = self._connection.execute(query, (held.key,)).fetchone()
        if row is None:
            return None
        columns = PlaceColumns.unpacked(row[0], held.lines)
        chosen = list(range(held.lines))
        if wanted is not None:
            chosen = [line for line in chosen if columns.shape[line] in wanted]
        if self._filters.since is not None or self._filters.until is not None:
            chosen = [line for line in chosen if self._filters.admits_moment(columns.moment[line])]
        return columns, chosen

    def entries(
        self, before: Cursor | None = None, *, is_forward: bool = False, budget: int = BUDGET
    ) -> Iterator[LogEntry | Cursor]:
        """Yield the wanted lines: those of a chain as they stand in it, chains merged by time.

        A cursor at the end says that there may be more. `cursor` is the place before the line yielded last.
        """
        chains = [chain for (chain,) in self._connection.execute(_CHAINS)]
        # Each chain is read as far as lines are taken from it: a page reads little of any of them.
        scans = [self._in_chain(chain, before, is_forward=is_forward, budget=budget) for chain in chains]
        for place in merge(*scans, reverse=not is_forward):
            if place.kind == "block":
                continue
            self.cursor = Cursor(place.order, place.file, place.at)
            if place.kind == "end":
                yield self.cursor
                return
            entry = self._reader.entry(place.file, place.at)
            if entry is None:
                continue
            self.read += len(entry.raw)
            # The line itself has the last word: an index may be stale, and must never show a wrong line.
            if self._filters.admits(entry):
                yield entry

    def _in_chain(
        self, chain: int, before: Cursor | None, *, is_forward: bool, budget: int
    ) -> Iterator[FoundPlace]:
        """Yield the lines of a chain that the index takes for wanted, in the order of the chain.

        A clock may jump, and lines stay in order all the same: going back in time, a line counts as no later
        than any newer one, and as no later than the latest line of a newer block.
        """
        wanted, page = self.shapes(), PageStart.of(chain, before)
        order, is_reached, is_read = page.order, page.latest == LATEST, False
        latest = max if is_forward else min
        for held in self.blocks(chain, before, is_forward=is_forward):
            # The pages before have shown all of it, or there is nothing to show.
            if (not is_reached and held.first > page.latest) or not held.lines:
                continue
            is_reached = is_reached or held.last <= page.latest
            edge, at = (held.first, held.at) if is_forward else (held.last, held.at + held.size)
            order = min(edge if order is None else latest(edge, order), page.latest)
            # A block is opened when it is its turn: of many chains, most add nothing to a page.
            yield FoundPlace(order, held.file, at, "block")
            # A rare text in a large log must not hold a page for minutes: the cursor lets the reader go on.
            # A page reads one block of a chain at least, so that it never ends where it began. Before its own
            # first line it cannot end: a cursor does not say which lines the pages before have shown.
            if is_read and is_reached and not is_forward and self.read > budget:
                yield FoundPlace(order, held.file, at, "end")
                return
            is_read = True
            places, chosen = self._places_in(held, wanted)
            for line in chosen if is_forward else reversed(chosen):
                moment, offset = places.moment[line], places.at[line]
                if (not is_reached and moment > page.latest) or (held.file, held.at + offset) >= page.end:
                    continue
                is_reached = True
                order = latest(order, moment)
                yield FoundPlace(order, held.file, held.at + offset)

    def _places_in(self, held: IndexedBlock, wanted: set[int] | None) -> tuple[PlaceColumns, list[int]]:
        """The columns of a block, and which of its lines the index takes for wanted, in order."""
        texts = self._with_needle(held) if self._needle else None
        if texts is not None and not texts and not self._has_shape_with_text(held):
            return PlaceColumns(), []
        found = self.places(held, wanted) if texts is not None or not self._needle else None
        # A pass of the indexer has replaced this block since it was listed.
        if found is None:
            return self._without_columns(held)
        columns, chosen = found
        if texts is not None:
            shapes = self._shapes_with_text()
            chosen = [line for line in chosen if line in texts or columns.shape[line] in shapes]
        return columns, chosen

    def _without_columns(self, held: IndexedBlock) -> tuple[PlaceColumns, list[int]]:
        """The same of all lines of a block that was replaced since; its lines did not move."""
        at, found = 0, PlaceColumns()
        for line in self._reader.bytes(held.file, held.at, held.size if held.lines else 0).split(b"\n"):
            entry = self._reader.entry(held.file, held.at + at)
            if entry is not None:
                found.moment.append(entry.moment)
                found.at.append(at)
            at += len(line) + 1
        self.read += held.size
        return found, list(range(len(found.at)))

    def _with_needle(self, held: IndexedBlock) -> set[int] | None:
        """The lines of a block that have the text in what stands in them alone; None where it is gone."""
        if not held.lines:
            return set()
        row = self._connection.execute("SELECT texts FROM lines WHERE block = ?", (held.key,)).fetchone()
        if row is None:
            return None
        texts = unpacked(row[0])
        # Each line needs its text: otherwise the numbers of lines would point at other lines.
        if texts.count(b"\n") + 1 != held.lines:
            raise DamagedError
        self.read += held.size // 16
        return set(_lines_with(self._needle, texts))

    def _has_shape_with_text(self, held: IndexedBlock) -> bool:
        """True if a line of a block has the text in its shape."""
        return not self._shapes_with_text().isdisjoint(array("I", held.shapes))

    def _shapes_with_text(self) -> set[int]:
        if self._shaped is None:
            text = self._filters.grep.lower()
            self._shaped = {key for name in TEXT_FIELDS for key in self._shapes_with(name, text)}
        return self._shaped

    def _shapes_with(self, name: str, text: str) -> Iterator[int]:
        """The shapes that have a text in this column, in capitals or not."""
        # Shapes are many and their different values few: the values are searched, then the shapes with one.
        values = self._connection.execute(f"SELECT DISTINCT {name} FROM shape").fetchall()  # noqa: S608
        for some in batched((value for (value,) in values if text in value.lower()), _AT_ONCE):
            asked = ", ".join("?" * len(some))
            query = f"SELECT id FROM shape WHERE {name} IN ({asked})"  # noqa: S608 - a column of ours
            yield from (key for (key,) in self._connection.execute(query, some))


def _lines_with(needle: bytes, texts: bytes) -> Iterator[int]:
    """The numbers of the lines that have it, without taking the others apart: most blocks have it in few."""
    number, counted, found = 0, 0, texts.find(needle)
    while found >= 0:
        number += texts.count(b"\n", counted, found)
        yield number
        counted = texts.find(b"\n", found)
        found = texts.find(needle, counted) if counted >= 0 else -1
