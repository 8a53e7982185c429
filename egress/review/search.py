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
from itertools import batched
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from egress.audit import files
from egress.audit.chain import MAX_LINE_BYTES
from egress.review.columns import DamagedError, PlaceColumns, unpacked
from egress.review.entry import LogEntry, NotALineError, parse
from egress.review.filters import FilterError, Filters, trigrams
from egress.review.line_fields import TEXT_FIELDS

BUDGET = 256 * 1024 * 1024
"""Bytes of lines that are looked through for one page."""
_AT_ONCE = 500
"""Values in one question to SQLite, which takes a bounded number."""


class Cursor(NamedTuple):
    """A place in the log: what is wanted stands before it."""

    file: int
    at: int

    def __str__(self) -> str:
        return f"{self.file}:{self.at}"

    @classmethod
    def of(cls, text: str) -> Self:
        """Read one that was shown. Raises `FilterError`."""
        # A cursor comes back from a URL, so it is read as strictly as any input.
        file, colon, at = text.partition(":")
        if not colon or not (file + at).isascii() or not (file.isdecimal() and at.isdecimal()):
            raise FilterError("this is no place in the log", "take the one that the page before gave")
        if len(text) > 40:
            raise FilterError("this is no place in the log", "take the one that the page before gave")
        return cls(min(int(file), 2**62), min(int(at), 2**62))


@dataclass(frozen=True, slots=True)
class IndexedBlock:
    """A block, as far as choosing needs it."""

    key: int
    file: int
    at: int
    size: int
    lines: int
    is_open: bool
    shapes: bytes


class EntryReader:
    """Reads single lines of the files of a log, which may go away meanwhile."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

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
        if number != self._number or self._file is None:
            if self._file is not None:
                self._file.close()
            self._number, self._file = number, None
            try:
                self._file = (self._directory / files.name(number)).open("rb")
            except FileNotFoundError:
                return None
        return self._file


class IndexSearch:
    """A search for lines by an index."""

    def __init__(self, connection: sqlite3.Connection, reader: EntryReader, filters: Filters) -> None:
        self._connection = connection
        self._reader = reader
        self._filters = filters
        self._needle = filters.needle.encode("ascii")
        self._shaped: set[int] | None = None
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

    def blocks(self, before: Cursor | None = None, *, is_forward: bool = False) -> Iterator[IndexedBlock]:
        """The blocks that can hold what is wanted: newest first, or oldest first."""
        wanted = self.shapes()
        if wanted is not None and not wanted:
            return
        texts = self._with_text()
        for held in self._in_order(before, is_forward=is_forward):
            # Open blocks are not in the text index, so they are always read.
            if texts is not None and not held.is_open and held.key not in texts:
                continue
            if wanted is None or not wanted.isdisjoint(array("I", held.shapes)):
                yield held

    def _in_order(self, before: Cursor | None, *, is_forward: bool) -> Iterator[IndexedBlock]:
        # `1` keeps the condition valid SQL without any part.
        parts, values = ["1"], list[int]()
        if self._filters.since is not None:
            parts.append("last >= ?")
            values.append(self._filters.since)
        if self._filters.until is not None:
            parts.append("first < ?")
            values.append(self._filters.until)
        if before is not None:
            parts.append("(file, at) < (?, ?)")
            values += before
        order = "ASC" if is_forward else "DESC"
        # A single query: the writer of the index is not kept waiting by a slow reader.
        rows = self._connection.execute(
            "SELECT id, file, at, size, lines, is_open, shapes FROM block"  # noqa: S608 - parts of our own
            f" WHERE {' AND '.join(parts)} ORDER BY file {order}, at {order}",
            values,
        )
        while some := rows.fetchmany(256):
            for key, file, at, size, lines, is_open, shapes in some:
                yield IndexedBlock(key, file, at, size, lines, bool(is_open), shapes)

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
        """Yield the wanted lines. A cursor at the end says that more may precede it."""
        wanted = self.shapes()
        for held in self.blocks(before, is_forward=is_forward):
            # A rare text in a large log must not hold a page for minutes: the cursor lets the reader go on.
            if not is_forward and self.read > budget:
                yield Cursor(held.file, held.at + held.size)
                return
            texts = self._with_needle(held) if self._needle else None
            if texts is not None and not texts and not self._has_shape_with_text(held):
                continue
            found = self.places(held, wanted) if texts is not None or not self._needle else None
            # A pass of the indexer has replaced this block since it was listed.
            if found is None:
                yield from self._without_columns(held, before, is_forward=is_forward)
                continue
            columns, chosen = found
            if before is not None and held.file == before.file:
                chosen = [line for line in chosen if held.at + columns.at[line] < before.at]
            if texts is not None:
                shapes = self._shapes_with_text()
                chosen = [line for line in chosen if line in texts or columns.shape[line] in shapes]
            for line in chosen if is_forward else reversed(chosen):
                entry = self._reader.entry(held.file, held.at + columns.at[line])
                if entry is None:
                    continue
                self.read += len(entry.raw)
                # The line itself has the last word: an index may be stale, and must never show a wrong line.
                if self._filters.admits(entry):
                    yield entry

    def _without_columns(
        self, held: IndexedBlock, before: Cursor | None, *, is_forward: bool
    ) -> Iterator[LogEntry]:
        """Yield the wanted lines of a block that was replaced since it was chosen; its lines did not move."""
        at, found = held.at, list[LogEntry]()
        for line in self._reader.bytes(held.file, held.at, held.size if held.lines else 0).split(b"\n"):
            if before is None or (held.file, at) < before:
                entry = self._reader.entry(held.file, at)
                if entry is not None and self._filters.admits(entry):
                    found.append(entry)
            at += len(line) + 1
        self.read += held.size
        yield from found if is_forward else reversed(found)

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
