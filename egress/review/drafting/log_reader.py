"""The lines of a log within a time, read from its files with bounded memory.

It reads and never writes, needs no key, and may run while the proxy writes. Where the log has an index,
what that knows to be of another time is passed over; without one all of it is looked through. A line that
is half, too long or none of ours is counted and passed over: the good ones around it still serve. Whether
the log is sound is for `egress log verify` to say.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from egress.errors import UnreadableError, UsageError, reason_of
from egress.review import schema
from egress.review.drafting.fast_exchange_parse import ExchangeParser, ParsedExchange
from egress.review.entry import LogEntry, NotALineError, parse
from egress.review.line_reader import pieces
from egress.review.log_files import LogFiles
from egress.review.skippable_spans import Part, SkippableSpans
from egress.review.timestamps import SECOND
from egress.rules.language import quantities
from egress.rules.language.report import MeaningError

DECIDED = frozenset({"exchange", "tunnel", "refusal"})
"""The kinds of lines with a verdict on one request, tunnel or name."""
_TIME = re.compile(rb'\{"seq":[0-9]{1,20},"time":"([0-9T:.-]{10,40}Z)"')

type Line = Mapping[str, object] | ParsedExchange
"""The fields of a line; of most exchanges what rules look at."""


@dataclass(slots=True)
class TimeRange:
    """From when to when lines are wanted, in UTC seconds, and how many were no lines at all."""

    start: int
    end: int | None = None
    odd: int = 0

    @classmethod
    def of(cls, text: str, now: int) -> TimeRange:
        """Read `1d`, `2h`, a day or a moment; raises `UsageError`."""
        try:
            return cls(now - quantities.parse_duration(text))
        except MeaningError:
            pass
        try:
            return cls(quantities.parse_moment(text))
        except MeaningError:
            hint = "write 30m, 2h or 1d, a day like 2027-01-31, or a moment like 2027-01-31T18:00:00Z"
            raise UsageError("--since is neither a time ago nor a moment", hint) from None


def read(directory: Path, since: TimeRange, index: Path | None = None) -> Iterator[Line]:
    """Every line of the log in the folder that is of that time, chain by chain, each oldest first.

    `index` is the file of the index, beside the lines where it is not given; there may be none. Raises
    `UnreadableError` when there is no log, or it cannot be read.
    """
    end = None if since.end is None else since.end * SECOND
    cutter = ExchangeParser()
    try:
        there = LogFiles.there(directory)
        elsewhen = SkippableSpans.of(index or directory / schema.NAME, since.start * SECOND, end, directory)
        for each in there:
            with each.path.open("rb") as file:
                for part in elsewhen.spans_to_read(file, each.number):
                    yield from _in_part(file, part, since, cutter, is_newest=each.is_newest)
    except OSError as error:
        raise _unreadable(directory, error) from None


def find(directory: Path, name: str) -> LogEntry | None:
    """The newest line with this id of a request, or of a connection, without an index; None without one.

    Raises `UnreadableError` when there is no log, or it cannot be read.
    """
    found: list[LogEntry] = []
    try:
        for each in LogFiles.there(directory):
            with each.path.open("rb") as file:
                lines = _named(file, name.encode("utf-8", "replace"))
                # The newest of each file: a line counts by its place there, and files by time.
                found += deque((line for line in lines if is_decided(line, name)), maxlen=1)
    except OSError as error:
        raise _unreadable(directory, error) from None
    return max(reversed(found), key=lambda line: line.moment, default=None)


def is_decided(entry: LogEntry, name: str) -> bool:
    """Whether a line tells of a verdict, and has this id."""
    return entry.event in DECIDED and name in (entry.request, entry.text("connection"))


def _named(file: BinaryIO, wanted: bytes) -> Iterator[LogEntry]:
    for piece in pieces(file):
        for line in piece.lines:
            # Most lines are passed over as bytes: parsing each of them would take minutes.
            if wanted in line:
                try:
                    yield parse(line)
                except NotALineError:
                    continue


def _unreadable(directory: Path, error: OSError) -> UnreadableError:
    return UnreadableError(
        f"the audit log in {directory} cannot be read: {reason_of(error)}", "name its folder with --dir"
    )


def _in_part(
    file: BinaryIO, part: Part, since: TimeRange, cutter: ExchangeParser, *, is_newest: bool
) -> Iterator[Line]:
    first = _stamp(since.start)
    end = None if since.end is None else _stamp(since.end)
    at, last = part
    for piece in pieces(file, at, last):
        since.odd += bool(piece.skipped)
        for line in piece.lines:
            match = _TIME.match(line)
            if match is None:
                since.odd += 1
            elif match[1] >= first and (end is None or match[1] < end):
                found = cutter.cut(line) or _fields(line)
                if found is None:
                    since.odd += 1
                else:
                    yield found
        at = piece.at + piece.size
    # Behind the last line of the newest file a line is being written, perhaps.
    since.odd += at < last and not is_newest


def _fields(line: bytes) -> Mapping[str, object] | None:
    try:
        return parse(line).fields
    except NotALineError:
        return None


def _stamp(moment: int) -> bytes:
    """A moment as lines write it: such texts sort as the moments do."""
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
    except (ValueError, OverflowError, OSError):
        return b"0000"
