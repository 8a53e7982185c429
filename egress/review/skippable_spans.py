"""Parts of a log outside a span of time, as an index knows them: a reader of one day need not read a week.

It asks the index as it stands and never writes. What the index does not know, because there is none, it is
behind, or the file is not the one that it read, is not passed over. Nothing is taken from it either: what
is not passed over is read from the lines.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from egress.errors import UnreadableError
from egress.review import index_ownership
from egress.review.indexer import IndexedFile, known
from egress.review.schema import open_to_read

type Part = tuple[int, int]
"""Where it begins in its file, and where it ends."""


@dataclass(slots=True)
class SkippableSpans:
    """The parts of each file in which no line is of a time."""

    _files: dict[int, IndexedFile] = field(default_factory=dict)
    _parts: dict[int, list[Part]] = field(default_factory=dict)

    @classmethod
    def of(cls, index: Path, since: int, until: int | None, directory: Path) -> SkippableSpans:
        """The parts without a line from `since` on and before `until`, in UTC microseconds.

        There are none where the index is missing, of another version or damaged, or where others than the
        owner of the log's folder could have written it.
        """
        try:
            index_ownership.check_ownership(index, directory)
            connection = open_to_read(index)
        except (OSError, sqlite3.Error, UnreadableError):
            return cls()
        try:
            # A single transaction: files and blocks have to be of the same moment.
            connection.execute("BEGIN")
            return cls(known(connection), _parts(connection, since, until))
        except sqlite3.Error:
            return cls()
        finally:
            connection.close()

    def spans_to_read(self, file: BinaryIO, number: int) -> Iterator[Part]:
        """The parts of a file that have to be read, in order: the rest of it. Raises `OSError`."""
        stat = os.fstat(file.fileno())
        read = self._files.get(number)
        at = 0
        if read is not None and read.is_of(file, stat):
            for begin, end in self._parts.get(number, ()):
                # Each part has to lie inside of the indexed bytes; an odd one is read rather than skipped.
                if at < begin <= end <= read.done:
                    yield at, begin
                if at <= begin <= end <= read.done:
                    at = end
        yield at, max(stat.st_size, at)


def _parts(connection: sqlite3.Connection, since: int, until: int | None) -> dict[int, list[Part]]:
    # A block without a line has no time: what is odd in it is told all the same.
    query = (
        "SELECT file, at, at + size FROM block WHERE lines > 0 AND (last < ? OR first >= ?) ORDER BY file, at"
    )
    found: dict[int, list[Part]] = {}
    for number, begin, end in connection.execute(query, (since, 2**62 if until is None else until)):
        parts = found.setdefault(number, [])
        if parts and parts[-1][1] == begin:
            parts[-1] = (parts[-1][0], end)
        else:
            parts.append((begin, end))
    return found
