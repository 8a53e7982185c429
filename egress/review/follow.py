"""Follow a growing log: the last lines, then every new line, across rotation and without an index.

A line is returned once its line end is written. When a later file of its chain exists, the rest of the
current file is read first. A file that became shorter was replaced, and is read again from near its new end.
Lines of several chains are merged by time, as far as they were read together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import merge
from pathlib import Path

from egress.audit import files
from egress.audit.chain import MAX_LINE_BYTES
from egress.audit.chain_folders import chain_folders
from egress.audit.verify import NoLogError
from egress.review.entry import LogEntry, NotALineError, parse
from egress.review.filters import Filters
from egress.review.line_reader import pieces
from egress.review.log_files import LogFiles

MAX_LOOKBACK_BYTES = 8 * 1024 * 1024
"""Bytes of a chain searched for the last lines."""


def follow(
    directory: Path, filters: Filters, last: int = 10, wait: Callable[[], bool] | None = None
) -> Iterator[LogEntry]:
    """Yield the last matching lines, then new lines as long as `wait` returns true.

    Raises `UnreadableError` without a log.
    """
    if not directory.is_dir() or not LogFiles.of(directory):
        raise NoLogError.of(directory)
    places = _Places(directory, filters)
    yield from deque(places.new(), maxlen=max(last, 0))
    while wait is not None and wait():
        yield from places.new()


class _Places:
    """The read positions in all chains of a log."""

    def __init__(self, directory: Path, filters: Filters) -> None:
        self._directory = directory
        self._filters = filters
        self._known: dict[Path, _Place] = {}

    def new(self) -> Iterator[LogEntry]:
        """Yield the matching lines since the last call."""
        for chain in chain_folders(self._directory):
            # A chain may begin at any time, when a further proxy starts.
            if chain.path not in self._known and (there := files.numbers(chain.path)):
                # The last two files: right after a rotation the newest file may be almost empty.
                number = there[-2] if len(there) > 1 else there[-1]
                self._known[chain.path] = _Place(chain.path, self._filters, number)
        lines = [place.new() for place in self._known.values()]
        yield from merge(*lines, key=lambda line: line.moment)


class _Place:
    """The read position in a chain."""

    def __init__(self, directory: Path, filters: Filters, number: int) -> None:
        self._directory = directory
        self._filters = filters
        self._number = number
        self._at = _start(directory, number, filters.since)

    def new(self) -> Iterator[LogEntry]:
        """Yield the matching lines since the last call."""
        while True:
            # List the files before reading: if a later file exists by now, the current file is complete.
            later = [number for number in files.numbers(self._directory) if number > self._number]
            if files.size(self._directory, self._number) < self._at:
                self._at = _start(self._directory, self._number, self._filters.since)
            for entry, end in _lines(self._directory, self._number, self._at):
                self._at = end
                if entry is not None and self._filters.admits(entry):
                    yield entry
            if not later:
                return
            self._number, self._at = later[0], 0


def _start(directory: Path, number: int, since: int | None) -> int:
    """Return the offset of a line near the end of a file; the end of a file that is older than `since`."""
    size = files.size(directory, number)
    if since is not None and files.changed(directory, number) < since:
        return size
    if size <= MAX_LOOKBACK_BYTES:
        return 0
    with (directory / files.name(number)).open("rb") as file:
        file.seek(size - MAX_LOOKBACK_BYTES)
        file.readline(MAX_LINE_BYTES)
        return file.tell()


def _lines(directory: Path, number: int, at: int) -> Iterator[tuple[LogEntry | None, int]]:
    """Yield each line from an offset on, with its end offset; None for an invalid line."""
    try:
        file = (directory / files.name(number)).open("rb")
    except FileNotFoundError:
        return
    with file:
        for piece in pieces(file, at):
            at = piece.at
            if piece.skipped:
                yield None, at + piece.skipped
            for line in piece.lines:
                begin, at = at, at + len(line) + 1
                try:
                    yield parse(line, number, begin), at
                except NotALineError:
                    yield None, at
