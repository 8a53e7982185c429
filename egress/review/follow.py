"""Following a log as it grows: the last lines, then every new one, across rotation. No index is needed.

A line is handed out when it has its end. Files are looked for by number: when a later one has begun, what
is left of the one before is read first. One that became shorter was put in its place by somebody else, and
is read from where it ends now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from egress.audit import files
from egress.audit.chain import MAX_LINE_BYTES
from egress.errors import UnreadableError
from egress.review.entry import LogEntry, NotALineError, parse
from egress.review.filters import Filters
from egress.review.line_reader import pieces

MAX_LOOKBACK_BYTES = 8 * 1024 * 1024
"""How far back the last lines are looked for."""


def follow(
    directory: Path, filters: Filters, last: int = 10, wait: Callable[[], bool] | None = None
) -> Iterator[LogEntry]:
    """The last lines that the filters want; then, as often as `wait` says to go on, what is new.

    Raises `UnreadableError` when there is no log.
    """
    there = files.numbers(directory) if directory.is_dir() else []
    if not there:
        raise UnreadableError(f"there is no audit log in {directory}", "name its folder with --dir")
    place = _Place(directory, filters, there[-2] if len(there) > 1 else there[-1])
    yield from deque(place.new(), maxlen=max(last, 0))
    while wait is not None and wait():
        yield from place.new()


class _Place:
    """How far a log has been read."""

    def __init__(self, directory: Path, filters: Filters, number: int) -> None:
        self._directory = directory
        self._filters = filters
        self._number = number
        self._at = _start(directory, number)

    def new(self) -> Iterator[LogEntry]:
        """What has come since, as far as it is wanted."""
        while True:
            # Looked for first: when a later file is there, this one is complete.
            later = [number for number in files.numbers(self._directory) if number > self._number]
            if files.size(self._directory, self._number) < self._at:
                self._at = _start(self._directory, self._number)
            for entry, end in _lines(self._directory, self._number, self._at):
                self._at = end
                if entry is not None and self._filters.admits(entry):
                    yield entry
            if not later:
                return
            self._number, self._at = later[0], 0


def _start(directory: Path, number: int) -> int:
    """Where a line begins, near the end of a file."""
    size = files.size(directory, number)
    if size <= MAX_LOOKBACK_BYTES:
        return 0
    with (directory / files.name(number)).open("rb") as file:
        file.seek(size - MAX_LOOKBACK_BYTES)
        file.readline(MAX_LINE_BYTES)
        return file.tell()


def _lines(directory: Path, number: int, at: int) -> Iterator[tuple[LogEntry | None, int]]:
    """The lines from a place on, each with where it ends; None for what is none."""
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
