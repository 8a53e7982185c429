"""The lines of a log within a time, read from its files with bounded memory.

It reads and never writes, needs neither key nor index, and may run while the proxy writes. A line that
is half, too long or none of ours is counted and passed over: the good ones around it still serve.
Whether the log is sound is for `egress log verify` to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from egress.audit import files
from egress.errors import UnreadableError, UsageError
from egress.rules import bounds
from egress.rules.report import MeaningError

MOST_LINE = 256 * 1024
"""No line of ours comes near it: a path has at most 4096 characters, each escaped in at most six."""
_DECIDED = frozenset({"exchange", "tunnel", "refusal"})
_TIME = re.compile(rb'\{"seq":[0-9]{1,20},"time":"([0-9T:.-]{10,40}Z)"')


@dataclass(slots=True)
class Since:
    """From when to when lines are wanted, in UTC seconds, and how many were no lines at all."""

    start: int
    end: int | None = None
    odd: int = 0

    @classmethod
    def of(cls, text: str, now: int) -> Since:
        """Read `1d`, `2h`, a day or a moment; raises `UsageError`."""
        try:
            return cls(now - bounds.duration(text))
        except MeaningError:
            pass
        try:
            return cls(bounds.moment(text))
        except MeaningError:
            hint = "write 30m, 2h or 1d, a day like 2027-01-31, or a moment like 2027-01-31T18:00:00Z"
            raise UsageError("--since is neither a time ago nor a moment", hint) from None


def read(directory: Path, since: Since) -> Iterator[Mapping[str, object]]:
    """The fields of every line in the folder that is of that time, oldest first.

    Raises `UnreadableError` when there is no log, or it cannot be read.
    """
    try:
        numbers = files.numbers(directory)
        if not numbers:
            raise UnreadableError(f"there is no audit log in {directory}", "name its folder with --log")
        for number in numbers:
            with (directory / files.name(number)).open("rb") as file:
                yield from _in_file(file, since)
    except OSError as error:
        raise _unreadable(directory, error) from None


def find(directory: Path, name: str) -> Mapping[str, object] | None:
    """The fields of the newest line with this id of a request, or of a connection; None without one.

    Raises `UnreadableError` when there is no log, or it cannot be read.
    """
    wanted = name.encode("utf-8", "replace")
    found = None
    try:
        numbers = files.numbers(directory)
        if not numbers:
            raise UnreadableError(f"there is no audit log in {directory}", "name its folder with --dir")
        for number in reversed(numbers):
            with (directory / files.name(number)).open("rb") as file:
                for line in _whole_lines(file, Since(0)):
                    # Most lines are passed over as bytes: reading each of them would take minutes.
                    if wanted in line and (fields := _fields(line)) and _is_named(fields, name):
                        found = fields
            if found is not None:
                return found
    except OSError as error:
        raise _unreadable(directory, error) from None
    return None


def _is_named(fields: Mapping[str, object], name: str) -> bool:
    return fields.get("event") in _DECIDED and name in (fields.get("request"), fields.get("connection"))


def _unreadable(directory: Path, error: OSError) -> UnreadableError:
    reason = (error.strerror or type(error).__name__).lower()
    return UnreadableError(
        f"the audit log in {directory} cannot be read: {reason}", "name its folder with --log"
    )


def _in_file(file: BinaryIO, since: Since) -> Iterator[Mapping[str, object]]:
    first = _stamp(since.start)
    end = None if since.end is None else _stamp(since.end)
    for line in _whole_lines(file, since):
        match = _TIME.match(line)
        if match is None:
            since.odd += 1
        elif match[1] >= first and (end is None or match[1] < end):
            fields = _fields(line)
            if fields is None:
                since.odd += 1
            else:
                yield fields


def _whole_lines(file: BinaryIO, since: Since) -> Iterator[bytes]:
    """Every line that has its end; one that is too long is never held as a whole."""
    while line := file.readline(MOST_LINE):
        if line.endswith(b"\n"):
            yield line
            continue
        since.odd += 1
        while line and not line.endswith(b"\n"):
            line = file.readline(MOST_LINE)


def _fields(line: bytes) -> Mapping[str, object] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _stamp(moment: int) -> bytes:
    """A moment as lines write it: such texts sort as the moments do."""
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
    except (ValueError, OverflowError, OSError):
        return b"0000"
