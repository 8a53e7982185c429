"""The index over a log: the one object that a command, a page or a metric asks.

It is a view, and can be thrown away at any time. One process at a time writes it, under a lock; others
read what is there meanwhile and are told how far behind it is. It must never change a line, and is never
believed over one: whatever is shown was read from the file and parsed.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from egress.audit.schema import LINE_KINDS
from egress.errors import UnreadableError
from egress.review import index_ownership, schema
from egress.review.columns import DamagedError
from egress.review.entry import LogEntry
from egress.review.filters import Filters
from egress.review.indexed_line import id_of
from egress.review.indexer import Indexer, NoRoomError, Progress
from egress.review.line_fields import FIELDS_BY_NAME, LISTED_FIELDS
from egress.review.log_files import LogFiles
from egress.review.schema import StaleIndexError
from egress.review.search import Cursor, EntryReader, IndexSearch
from egress.review.stats import Stats, TotalsQuery
from egress.review.totals import TrafficTotals

RESERVE = 256 * 1024 * 1024
"""Bytes of the disk that an index leaves to the log."""
LOCK = ".lock"
OPEN_ATTEMPTS = 60
"""Attempts, 50 ms apart, to open an index that another process has begun to make."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """The extent of an index, and how far it is behind."""

    lines: int = 0
    files: int = 0
    odd: tuple[tuple[str, int], ...] = ()
    """What is no line, by kind: `half`, `huge`, `foreign`, `corrupt`."""
    unknown: int = 0
    """Kinds of lines that a later version wrote."""
    behind: int = 0
    """Bytes of lines that are not in it."""
    trouble: str = ""
    """Why it could not catch up; empty when it could."""


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Some lines, newest first."""

    entries: tuple[LogEntry, ...]
    cursor: Cursor | None
    """Where the next page begins; None when there is no more."""
    state: IndexState


class Index:
    """An index over the log in a folder."""

    def __init__(self, directory: Path, place: Path | None = None, *, reserve: int | None = None) -> None:
        """`place` is the file of the index, beside the lines where it is not given.

        `reserve` is how many bytes of the disk are left to the log.
        """
        self.directory = directory
        self.place = place or directory / schema.NAME
        self._reserve = RESERVE if reserve is None else reserve
        self._connection: sqlite3.Connection | None = None
        self._node = 0
        self._trouble = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # Catching up --------------------------------------------------------------------------------

    def catch_up(self, progress: Progress | None = None) -> IndexState:
        """Bring it up to the lines, unless another process is doing that; returns how it stands then.

        Raises `UnreadableError` when there is no log, nothing to read and nowhere to write, or when the
        index is one that others could have written.
        """
        self._look()
        try:
            # Before the file is opened for writing: a link of another user could lead anywhere.
            index_ownership.check_ownership(self.place, self.directory)
            with self._lock() as is_ours:
                self._trouble = "" if is_ours else "another process is bringing it up to the lines"
                if is_ours:
                    self._fill(progress)
                else:
                    self._await()
        # Trouble is noted and not raised: an old index still answers, and says how far it is behind.
        except NoRoomError:
            self._trouble = "the disk is nearly full, and the log comes first"
        except (OSError, sqlite3.OperationalError) as error:
            self._trouble = _reason(error)
        return self.state()

    def _look(self) -> None:
        LogFiles.there(self.directory)

    def _await(self) -> None:
        """Wait for an index that another process has only begun to make."""
        for _ in range(OPEN_ATTEMPTS):
            try:
                self._open()
            except UnreadableError:
                time.sleep(0.05)
            else:
                return

    @contextmanager
    def _lock(self) -> Iterator[bool]:
        """Hold the lock of the index; false where another process holds it."""
        path = self.place.with_name(self.place.name + LOCK)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            # Closing gives back the lock, however the work ended.
            os.close(descriptor)

    def _fill(self, progress: Progress | None) -> None:
        connection = schema.open_to_write(self.place)
        try:
            Indexer(connection, self.directory, self._reserve).run(progress)
        except sqlite3.DatabaseError as error:
            connection.close()
            if not schema.is_damage(error):
                raise
            # Found damaged in the middle: once more, from nothing.
            schema.throw_away(self.place)
            connection = schema.open_to_write(self.place)
            Indexer(connection, self.directory, self._reserve).run(progress)
        finally:
            connection.close()

    def _open(self) -> sqlite3.Connection:
        """The connection to read by; opened again when the file is another one."""
        try:
            node = self.place.stat().st_ino
            # A new inode: a damaged index was replaced, and the open file is no longer the index.
            if self._connection is None or node != self._node:
                self.close()
                index_ownership.check_ownership(self.place, self.directory)
                self._connection, self._node = schema.open_to_read(self.place), node
        except (OSError, sqlite3.Error, StaleIndexError) as error:
            message = f"there is no index of the log at {self.place}, and none can be made"
            reason = self._trouble or _reason(error)
            raise UnreadableError(f"{message}: {reason}", "name another place with --index") from None
        return self._connection

    def state(self) -> IndexState:
        """How it stands now."""
        run = self._open().execute
        done = dict(run("SELECT number, done FROM file"))
        odd = run("SELECT kind, count(*) FROM odd GROUP BY kind ORDER BY kind").fetchall()
        (lines,) = run("SELECT coalesce(sum(lines), 0) FROM block").fetchone()
        there = LogFiles.of(self.directory)
        behind = sum(max(file.size() - done.get(file.number, 0), 0) for file in there)
        # The beginning of a line that is being written is nothing to be behind with.
        behind = behind if self._trouble else 0
        return IndexState(lines, len(done), tuple(odd), self._unknown(), behind, self._trouble)

    def _unknown(self) -> int:
        found = self._open().execute("SELECT DISTINCT event FROM grp")
        return sum(event not in LINE_KINDS for (event,) in found)

    # Questions ----------------------------------------------------------------------------------

    def _asked[T](self, question: Callable[[], T]) -> T:
        """The answer to a question; where the index turns out to be damaged, that of a new one."""
        try:
            return question()
        except DamagedError:
            pass
        except sqlite3.Error as error:
            if not schema.is_damage(error):
                message = f"the index at {self.place} cannot be read: {_reason(error)}"
                raise UnreadableError(message, "name another place with --index") from None
        # Only a holder of the lock may delete it: another process may be making the new one.
        self.close()
        with self._lock() as is_ours:
            if is_ours:
                schema.throw_away(self.place)
        self.catch_up()
        return question()

    def query(self, filters: Filters, limit: int = 50, before: Cursor | None = None) -> ResultPage:
        """The newest lines that the filters want, before a place in the log if one is given."""
        return self._asked(lambda: self._query(filters, limit, before))

    def _query(self, filters: Filters, limit: int, before: Cursor | None) -> ResultPage:
        entries: list[LogEntry] = []
        with EntryReader(self.directory) as reader:
            search = IndexSearch(self._open(), reader, filters)
            cursor = before or search.cursor
            # A further line is sought, to learn whether another page follows.
            for found in search.entries(before):
                if isinstance(found, Cursor):
                    return ResultPage(tuple(entries), found, self.state())
                if len(entries) == limit:
                    return ResultPage(tuple(entries), cursor, self.state())
                entries.append(found)
                cursor = search.cursor
        return ResultPage(tuple(entries), None, self.state())

    def each(self, filters: Filters) -> Iterator[LogEntry]:
        """Every line that the filters want, oldest first."""
        with EntryReader(self.directory) as reader:
            for found in IndexSearch(self._open(), reader, filters).entries(is_forward=True):
                if isinstance(found, LogEntry):
                    yield found

    def ends(self) -> tuple[tuple[int, int], ...]:
        """How far each file is indexed, in order."""
        return tuple(self._open().execute("SELECT number, done FROM file ORDER BY number"))

    def find(self, request: str, most: int | None = None) -> list[LogEntry]:
        """The lines of a request, by its whole id, oldest first; no more of them than `most`."""
        return self._asked(lambda: list(islice(self._with_id(request, "request"), most)))

    def connection(self, connection: str, most: int | None = None) -> list[LogEntry]:
        """The lines of a connection, by its whole id, oldest first; no more of them than `most`."""
        return self._asked(lambda: list(islice(self._with_id(connection, "connection"), most)))

    def newest(self, name: str, wanted: Callable[[LogEntry], bool]) -> LogEntry | None:
        """The newest line of a request, or of a connection, that is wanted."""
        return self._asked(lambda: self._newest(name, wanted))

    def _newest(self, name: str, wanted: Callable[[LogEntry], bool]) -> LogEntry | None:
        found = []
        for column in ("request", "connection"):
            lines = self._with_id(name, column, is_backward=True)
            line = next(filter(wanted, lines), None)
            found += [line] if line is not None else []
        return max(found, key=lambda line: (line.moment, line.file, line.at), default=None)

    def _with_id(self, wanted: str, name: str, *, is_backward: bool = False) -> Iterator[LogEntry]:
        number = id_of(wanted).to_bytes(4, "little")
        blocks: list[tuple[int, int, int]] = []
        # A column of that name, and none that was typed.
        query = f"SELECT file, block.at, size, {name}s FROM ids JOIN block ON block.id = ids.block"  # noqa: S608
        for file, begin, size, ids in self._open().execute(query):
            # Numbers have four bytes: a match in the middle of two of them is none.
            at = ids.find(number)
            while at >= 0 and at % 4:
                at = ids.find(number, at + 1)
            if at >= 0:
                blocks.append((file, begin, size))
        with EntryReader(self.directory) as reader:
            for place in sorted(blocks, reverse=is_backward):
                found = self._in_block(reader, place, wanted, name)
                yield from reversed(list(found)) if is_backward else found

    def _in_block(
        self, reader: EntryReader, place: tuple[int, int, int], wanted: str, name: str
    ) -> Iterator[LogEntry]:
        file, at, size = place
        needle = wanted.encode("utf-8", "replace")
        for line in reader.bytes(file, at, size).split(b"\n"):
            if needle in line:
                entry = reader.entry(file, at)
                # The needle only narrows: the parsed field decides, as the bytes may stand in any value.
                if entry is not None and entry.text(name) == wanted:
                    yield entry
            at += len(line) + 1

    def stats(self, filters: Filters, by: str = "sandbox", top: int = 20) -> Stats:
        """Totals by sandbox, host, rule, secret, verdict, code, event or profile."""
        return self._added_up(lambda: self._totals(filters).stats(by, top))

    def tables(self, filters: Filters, by: Sequence[str], top: int = 20) -> dict[str, Stats]:
        """The same by several of these at once."""
        return self._added_up(lambda: self._totals(filters).tables(by, top))

    def total(self, filters: Filters) -> TrafficTotals:
        """Totals of everything that the filters let through."""
        return self._added_up(lambda: self._totals(filters).total())

    def over_time(self, filters: Filters, step: int = 0) -> tuple[tuple[int, TrafficTotals], ...]:
        """Totals of each step of time, in microseconds; 0 chooses one."""
        return self._added_up(lambda: self._totals(filters).over_time(step))

    def _added_up[T](self, question: Callable[[], T]) -> T:
        """The answer to a question for numbers: all of them as they were at one moment."""

        def at_once() -> T:
            # A single transaction, so that a total and its parts agree although the log grows meanwhile.
            connection = self._open()
            connection.execute("BEGIN")
            try:
                return question()
            finally:
                connection.rollback()

        return self._asked(at_once)

    def _totals(self, filters: Filters) -> TotalsQuery:
        return TotalsQuery(self._open(), self.directory, filters)

    def values(self, name: str, most: int = 500) -> tuple[str, ...]:
        """The values of a field, in order, to choose from."""
        # Names of columns go into SQL as text, so only listed ones pass.
        if name not in LISTED_FIELDS:
            return ()
        table = "grp" if FIELDS_BY_NAME[name].in_totals else "shape"
        query = f"SELECT DISTINCT {name} FROM {table} WHERE {name} != '' ORDER BY {name} LIMIT ?"  # noqa: S608
        return self._asked(lambda: tuple(value for (value,) in self._open().execute(query, (most,))))

    def odd(self, most: int = 100) -> tuple[tuple[int, int, int, str], ...]:
        """Bytes that are no line: file, place, size and kind."""
        query = "SELECT file, at, size, kind FROM odd ORDER BY file, at LIMIT ?"
        return tuple(self._open().execute(query, (most,)))


def _reason(error: Exception) -> str:
    """The reason that the system gave, without any input of a person or text of a line."""
    if isinstance(error, OSError):
        return (error.strerror or str(error) or type(error).__name__).lower()
    return str(getattr(error, "sqlite_errorname", type(error).__name__)).removeprefix("SQLITE_").lower()
