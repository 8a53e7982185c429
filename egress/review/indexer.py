"""Bringing an index up to the lines: what is new is added, what is gone is taken out.

A file of the log only ever grows at its end and is deleted as a whole. One that did anything else, because
somebody changed, cut or replaced it, is taken out and read again from its beginning. The open end of the
newest file is read again each time; everything before it is read once.

The disk is shared with the log, and a proxy whose log cannot be written stops its sandboxes. So an index
never takes the last space: it stops before, stays behind, and says so.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from sys import intern
from typing import BinaryIO

from egress.audit.fields import MAX_NUMBER
from egress.errors import FAILED_CODES
from egress.review import histogram
from egress.review.blocks import Block, Total
from egress.review.indexed_line import written
from egress.review.line_fields import TEXT_FIELDS
from egress.review.line_reader import pieces
from egress.review.line_shape import APART
from egress.review.log_files import LogFile, LogFiles
from egress.review.shape_ids import ShapeIds
from egress.review.timestamps import DAY, HOUR

BLOCKS = 48
"""How many are written in one transaction."""
TAIL = 96
"""Bytes of a file that are compared, to see that it is the one that was read."""

KEPT = 16_384


_FAILED = ", ".join(f"'{code}'" for code in sorted(FAILED_CODES))
KINDS = (
    "SELECT id, (verdict = 'deny') + 2 * (verdict = 'cut')"  # noqa: S608 - codes of our own
    f" + 3 * (verdict = 'allow' AND code IN ({_FAILED})) + 4 * (secret != '') FROM grp"
)
"""The kinds that `clock` tells apart: four ends of a request, each with a secret or without. See `CLOCK`."""

Progress = Callable[[int, int], None]
"""Told how many bytes are done, and of how many."""


class NoRoomError(OSError):
    """The disk is too full for an index."""


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """The state of a file when it was indexed."""

    done: int
    size: int
    node: int
    changed: int
    tail: bytes

    def is_of(self, file: BinaryIO, stat: os.stat_result) -> bool:
        """True if this is the indexed file, and its indexed part has not changed."""
        if stat.st_size < self.done or stat.st_ino != self.node:
            return False
        # The same size with a new time: bytes in the middle may have been changed.
        if stat.st_size == self.size and stat.st_mtime_ns != self.changed:
            return False
        return _tail(file, self.done) == self.tail


def known(connection: sqlite3.Connection) -> dict[int, IndexedFile]:
    """The indexed state of each file. Raises `sqlite3.Error`."""
    rows = connection.execute("SELECT number, done, size, node, changed, tail FROM file")
    return {number: IndexedFile(*rest) for number, *rest in rows}


class Indexer:
    """A pass over the files of a log, by the process that holds the lock of the index."""

    def __init__(self, connection: sqlite3.Connection, directory: Path, reserve: int) -> None:
        self._connection = connection
        self._directory = directory
        self._reserve = reserve
        self._number = ShapeIds(connection)
        self._totals: dict[tuple[int, int], Total] = {}
        self._waiting = 0
        self._kept: dict[int, tuple[str, ...]] = {}

    def run(self, progress: Progress | None = None) -> None:
        """Add and take out until the index is up to the lines. Raises `OSError` and `sqlite3.Error`."""
        there = LogFiles.of(self._directory)
        before = known(self._connection)
        self._begin()
        try:
            # Deleted files go first, which makes room before anything is added.
            for number in before.keys() - {file.number for file in there}:
                self._take_out(number)
            left = {file.number: _left(file, before.get(file.number)) for file in there}
            done, total = 0, sum(left.values())
            for file in there:
                self._file(file, before.get(file.number))
                done += left[file.number]
                if progress is not None and left[file.number]:
                    progress(done, total)
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.rollback()
            raise

    def _begin(self) -> None:
        found = os.statvfs(self._directory)
        if found.f_bavail * found.f_frsize < self._reserve:
            raise NoRoomError("the disk is nearly full")
        self._connection.execute("BEGIN IMMEDIATE")

    def _pause(self) -> None:
        """Make what there is visible, and go on."""
        self._connection.execute("COMMIT")
        self._waiting = 0
        self._begin()

    # A file -------------------------------------------------------------------------------------

    def _file(self, log_file: LogFile, known: IndexedFile | None) -> None:
        number = log_file.number
        try:
            file = log_file.path.open("rb")
        except FileNotFoundError:
            # Deleted since we looked; the next pass takes it out.
            return
        with file:
            stat = os.fstat(file.fileno())
            open_at = self._open_block(number)
            if known is not None and known.is_of(file, stat):
                is_whole = open_at is None and known.done == known.size
                if known.size == stat.st_size and (log_file.is_newest or is_whole):
                    return
                start = known.done if open_at is None else open_at
                # The open end is read again: it has grown, or it has become a full block.
                self._connection.execute("DELETE FROM odd WHERE file = ? AND at >= ?", (number, start))
                self._delete_blocks("file = ? AND is_open", number)
            else:
                if known is not None:
                    self._take_out(number)
                start = 0
            end = self._blocks(file, log_file, start)
            self._end(file, number, end, stat, is_newest=log_file.is_newest)

    def _open_block(self, number: int) -> int | None:
        query = "SELECT at FROM block WHERE file = ? AND is_open"
        found = self._connection.execute(query, (number,)).fetchone()
        return None if found is None else int(found[0])

    def _blocks(self, file: BinaryIO, log_file: LogFile, start: int) -> int:
        """Read the blocks from a place on; returns where the lines end."""
        block = Block(start, self._number)
        for piece in pieces(file, start):
            if piece.skipped:
                # By itself, so that no block is larger than what is read at once.
                block = self._put(log_file, block) if block.size else block
                block.skip(piece.skipped)
                block = self._put(log_file, block)
            index = 0
            while index < len(piece.lines):
                index = block.take(piece.lines, index)
                if block.is_full:
                    block = self._put(log_file, block)
        end = block.at + block.size
        if block.size:
            self._put(log_file, block, is_open=log_file.is_newest)
        return end

    def _end(self, file: BinaryIO, number: int, end: int, stat: os.stat_result, *, is_newest: bool) -> None:
        """Note how far the file is read; what is left behind the last line of an old one is odd."""
        self._write_totals(number)
        size = max(stat.st_size, end)
        if size > end and not is_newest:
            row = (number, end, size - end, "half")
            self._connection.execute("INSERT OR REPLACE INTO odd VALUES (?, 0, ?, ?, ?)", row)
        self._connection.execute(
            "INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?)",
            (number, end, size, stat.st_ino, stat.st_mtime_ns, _tail(file, end)),
        )

    # A block ------------------------------------------------------------------------------------

    def _put(self, log_file: LogFile, block: Block, *, is_open: bool = False) -> Block:
        """Write a block; returns an empty one that begins behind it."""
        run, number = self._connection.execute, log_file.number
        moments = block.places.moment
        first, last = (min(moments), max(moments)) if moments else (0, 0)
        row = (number, block.at, block.size, block.lines, first, last, is_open, block.shapes)
        inserted = run(
            "INSERT INTO block (file, at, size, lines, first, last, is_open, shapes)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
        key = inserted.lastrowid
        texts = b"\n".join(block.texts).lower()
        packed = (key, block.places.packed(), block.numbers.packed(), zlib.compress(texts, 1))
        run("INSERT INTO lines VALUES (?, ?, ?, ?)", packed)
        run("INSERT INTO ids VALUES (?, ?, ?)", (key, _ids(block.requests), _ids(block.connections)))
        odd = [(number, key, odd.at, odd.size, odd.kind) for odd in block.odd]
        self._connection.executemany("INSERT OR REPLACE INTO odd VALUES (?, ?, ?, ?, ?)", odd)
        # The text of open blocks is not in `words`: a contentless table cannot delete a row.
        if not is_open:
            run("INSERT INTO words (rowid, text) VALUES (?, ?)", (key, self._words(block)))
            self._add(block)
            self._waiting += 1
            if self._waiting >= BLOCKS:
                self._write_totals(number)
                self._note(log_file, block)
                self._pause()
        return Block(block.at + block.size, self._number)

    def _note(self, log_file: LogFile, block: Block) -> None:
        """Note how far a file is read that is not read to its end yet."""
        end = block.at + block.size
        with log_file.path.open("rb") as file:
            stat = os.fstat(file.fileno())
            # A size that it never had: the next pass will go on from here.
            row = (log_file.number, end, -1, stat.st_ino, stat.st_mtime_ns, _tail(file, end))
        self._connection.execute("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?)", row)

    def _words(self, block: Block) -> str:
        texts = b"\n".join(set(block.texts)).decode("ascii", "replace")
        seen: set[str] = set()
        for shape in set(block.places.shape):
            seen.update(self._texts(shape))
        return "\n".join((texts, *map(written, seen)))

    def _texts(self, shape: int) -> tuple[str, ...]:
        """The texts of a shape; those that come up again and again are kept."""
        found = self._kept.get(shape)
        if found is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            query = f"SELECT {', '.join(TEXT_FIELDS)} FROM shape WHERE id = ?"  # noqa: S608 - names of our own
            row = self._connection.execute(query, (shape,)).fetchone()
            found = self._kept[shape] = tuple(intern(text.strip(APART)) for text in row if text)
        return found

    # Totals -------------------------------------------------------------------------------------

    def _add(self, block: Block) -> None:
        for key, found in block.totals.items():
            total = self._totals.get(key)
            if total is None:
                self._totals[key] = found
            else:
                total.add(found)

    def _write_totals(self, number: int) -> None:
        hours = {(hour * HOUR, group): total for (hour, group), total in self._totals.items()}
        if hours:
            self._merge("hour", hours, number)
            self._merge_whole(hours)
            self._totals = {}

    def _merge_whole(self, hours: dict[tuple[int, int], Total]) -> None:
        """Add hours to what is kept of all files together."""
        kinds = dict(self._connection.execute(KINDS))
        days: dict[tuple[int, int], Total] = {}
        clock: dict[tuple[int, int], Total] = {}
        for (start, group), total in hours.items():
            days.setdefault((start // DAY * DAY, group), Total()).add(total)
            clock.setdefault((start, kinds.get(group, 0)), Total()).add(total)
        self._merge("day", days)
        self._merge("clock", clock)

    def _merge(self, table: str, totals: dict[tuple[int, int], Total], number: int | None = None) -> None:
        """Add totals to those that a table has."""
        keys, values = ("", ()) if number is None else ("file, ", (number,))
        query = f"SELECT start, grp, requests, up, down, took FROM {table} WHERE start BETWEEN ? AND ?"  # noqa: S608
        query += " AND file = ?" if number is not None else ""
        sums = {key: Total() for key in totals}
        for start, group, *before in self._connection.execute(
            query, (min(totals)[0], max(totals)[0], *values)
        ):
            total = sums.get((start, group))
            if total is not None:
                requests, up, down, took = before
                total.add(Total(requests, up, down, histogram.merged([took])))
        for key, total in totals.items():
            sums[key].add(total)
        rows = [
            (*values, *key, *map(_held, (total.requests, total.up, total.down)), histogram.packed(total.took))
            for key, total in sorted(sums.items(), key=itemgetter(0))
        ]
        self._connection.executemany(
            f"INSERT OR REPLACE INTO {table} ({keys}start, grp, requests, up, down, took)"  # noqa: S608
            f" VALUES ({', '.join('?' * (6 + len(values)))})",
            rows,
        )

    # Taking out ---------------------------------------------------------------------------------

    def _take_out(self, number: int) -> None:
        self._delete_blocks("file = ?", number)
        rows = self._connection.execute(
            "SELECT start, grp, requests, up, down, took FROM hour WHERE file = ?", (number,)
        )
        hours = {
            # Negative sums take the file out of days and hours that it shares with other files.
            (start, group): Total(-requests, -up, -down, histogram.negated(took))
            for start, group, requests, up, down, took in rows
        }
        if hours:
            self._merge_whole(hours)
            for table in ("day", "clock"):
                self._connection.execute(f"DELETE FROM {table} WHERE requests <= 0")  # noqa: S608
        for table in ("hour", "odd"):
            self._connection.execute(f"DELETE FROM {table} WHERE file = ?", (number,))  # noqa: S608
        self._connection.execute("DELETE FROM file WHERE number = ?", (number,))

    def _delete_blocks(self, where: str, number: int) -> None:
        # Rows of `words` stay behind, and lead nowhere.
        for table in ("lines", "ids"):
            self._connection.execute(
                f"DELETE FROM {table} WHERE block IN (SELECT id FROM block WHERE {where})",  # noqa: S608
                (number,),
            )
        self._connection.execute(f"DELETE FROM block WHERE {where}", (number,))  # noqa: S608


def _left(file: LogFile, known: IndexedFile | None) -> int:
    """How many bytes of a file are new."""
    return max(file.size() - (known.done if known else 0), 0)


def _held(number: int) -> int:
    """A number as the database can hold it: lines that nobody wrote for us may come to more."""
    return max(-MAX_NUMBER, min(number, MAX_NUMBER))


def _tail(file: BinaryIO, end: int) -> bytes:
    file.seek(max(end - TAIL, 0))
    return file.read(min(TAIL, end))


def _ids(numbers: set[int]) -> bytes:
    return b"".join(number.to_bytes(4, "little") for number in sorted(numbers) if number)
