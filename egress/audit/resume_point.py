"""The resume point of a start: the position where the chain continues, and the gap to record.

A start reads the checkpoint (`head`) and the end of the newest file, never the whole log, and changes nothing
here. Four cases:

* the log ends where the checkpoint says, or where it announced: continue, and confirm it at once, so that
  these lines cannot be cut from then on;
* the checkpoint announced more lines than exist, and every confirmed line exists: the process was killed
  during a write. Complete lines stay lines, the rest stays as a fragment, and a gap `killed` follows in the
  same file;
* a confirmed line is missing (`cut`) or different (`altered`), or unannounced bytes follow (`foreign`):
  continue in a new file with such a gap, so that the remaining evidence stays untouched. `verify` reports the
  gap for ever;
* the checkpoint is missing or damaged (`head`): continue after the last authentic line, in a new file, with
  such a gap. Without any authentic line the key must be wrong, and the start is refused.

An announced sequence number is never used again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from egress.audit import checkpoint, files
from egress.audit.chain import (
    MAX_LINE_BYTES,
    TAIL,
    ZERO_MAC,
    Chain,
    Keys,
    ParsedLine,
    is_authentic,
    mac_in,
    parse_line,
)
from egress.audit.checkpoint import Checkpoint, LogPosition
from egress.audit.gaps import Fragment, Gap, GapKind, gap_in, killed_gap
from egress.errors import UnreadableError


class OtherKeyError(UnreadableError):
    """A log was written with another key."""

    @classmethod
    def of(cls, directory: Path) -> Self:
        return cls(
            f"the audit log in {directory} was not written with this key",
            "give the right key, or move the folder away to start a new log",
        )


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The position at which the chain continues."""

    end: LogPosition
    """The last existing line; in a new file offset 0 with the MAC of the line before."""
    offset: int
    """Offset of the next byte, after that line and a fragment behind it."""
    next_seq: int
    """The last announced number plus 1."""
    gap: Gap | None = None
    is_fresh: bool = False
    """True for an empty log."""


def find_resume_point(directory: Path, keys: Keys) -> ResumePoint:
    """Find the resume point of a log. Raises `UnreadableError` for a wrong key, and `OSError`."""
    there = files.numbers(directory)
    data = checkpoint.read(directory)
    if not data and not any(files.size(directory, number) for number in there):
        return ResumePoint(LogPosition(), 0, 1, is_fresh=True)
    known = checkpoint.decode(data or b"", keys.head)
    if known is None:
        return _without_head(directory, there, Chain(keys.line))
    return _with_head(directory, there, known, Chain(keys.line))


# With the head ----------------------------------------------------------------------------------


def _with_head(directory: Path, there: list[int], known: Checkpoint, chain: Chain) -> ResumePoint:
    written, intended = known.written, known.intended
    kind = _damage(directory, there, known)
    if kind is None:
        found = _window(directory, known, chain)
        if found is not None:
            return found
        kind = "foreign"
    fresh = LogPosition(written.seq, max([intended.file, *there]) + 1, 0, written.mac)
    return ResumePoint(fresh, 0, intended.seq + 1, Gap(kind))


def _damage(directory: Path, there: list[int], known: Checkpoint) -> GapKind | None:
    """Compare the log with the checkpoint; None if the confirmed bytes are intact and no others follow."""
    written, intended = known.written, known.intended
    size = files.size(directory, written.file)
    if size < written.offset or (written.seq and written.file not in there):
        return "cut"
    # Order matters: a missing line must not be reported as altered.
    if written.offset and _mac_at(directory, written) != written.mac:
        return "altered"
    ends = {written.file: written.offset, intended.file: intended.offset}
    for number in there:
        if number >= written.file and files.size(directory, number) > ends.get(number, 0):
            return "foreign"
    return None


def _mac_at(directory: Path, point: LogPosition) -> bytes:
    with (directory / files.name(point.file)).open("rb") as file:
        file.seek(max(point.offset - TAIL - 1, 0))
        tail = file.read(TAIL + 1)
    return mac_in(tail[:-1]) or b"" if tail.endswith(b"\n") else b""


def _window(directory: Path, known: Checkpoint, chain: Chain) -> ResumePoint | None:
    """Read the announced, unconfirmed lines; None if other bytes are among them."""
    written, intended = known.written, known.intended
    # A write never spans two files: after a rotation the whole window lies in the new file.
    is_same = intended.file == written.file
    start = written if is_same else LogPosition(written.seq, intended.file, 0, written.mac)
    data = _bytes_between(directory, start, intended)
    end = _last_line(start, data, chain)
    if end is None:
        return None
    rest = data[end.offset - start.offset :]
    offset = end.offset + len(rest)
    if end.seq == intended.seq and not rest:
        return ResumePoint(end, offset, end.seq + 1)
    missing = (end.seq + 1, intended.seq) if end.seq < intended.seq else None
    return ResumePoint(end, offset, intended.seq + 1, killed_gap(missing, rest))


def _last_line(end: LogPosition, data: bytes, chain: Chain) -> LogPosition | None:
    """Find the last line that follows `end`; None if bytes in between have no matching gap."""
    at, bad = end.offset, b""
    # Bytes after the last line end are a fragment, which the new gap will describe.
    for text in data.split(b"\n")[:-1]:
        at += len(text) + 1
        line = parse_line(text)
        if line is None or not is_authentic(chain, end.mac, line):
            bad += text + b"\n"
            continue
        # Only a gap with the exact size and digest excuses these bytes: otherwise anyone could insert some.
        if bad and not Fragment(bad).is_of(gap_in(line)):
            return None
        end, bad = LogPosition(line.seq, end.file, at, line.mac), b""
    return end


def _bytes_between(directory: Path, start: LogPosition, end: LogPosition) -> bytes:
    try:
        with (directory / files.name(start.file)).open("rb") as file:
            file.seek(start.offset)
            return file.read(max(end.offset - start.offset, 0))
    except FileNotFoundError:
        return b""


# Without it -------------------------------------------------------------------------------------


def _without_head(directory: Path, there: list[int], chain: Chain) -> ResumePoint:
    for number in reversed(there):
        with (directory / files.name(number)).open("rb") as file:
            last = _last_authentic(file, chain)
        if last is not None:
            fresh = LogPosition(last.seq, there[-1] + 1, 0, last.mac)
            return ResumePoint(fresh, 0, last.seq + 1, Gap("head"))
    raise OtherKeyError.of(directory)


def _last_authentic(file: BinaryIO, chain: Chain) -> ParsedLine | None:
    """Return the last authentic line of a file, skipping all other bytes."""
    last, previous = None, ZERO_MAC
    for text in read_lines(file):
        line = parse_line(text.removesuffix(b"\n"))
        if line is None:
            continue
        if is_authentic(chain, previous, line) or is_authentic(chain, previous_mac_in(line), line):
            last = line
        previous = line.mac
    return last


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file with their line ends; an overlong line comes in pieces."""
    while line := file.readline(MAX_LINE_BYTES):
        yield line


def previous_mac_in(line: ParsedLine) -> bytes:
    """Return the predecessor MAC that a line itself names; zeros if none."""
    marker = b',"previous":"'
    at = len(line.content) - 65
    if line.content[at - len(marker) : at] != marker or not line.content.endswith(b'"'):
        return ZERO_MAC
    try:
        return bytes.fromhex(line.content[at:-1].decode("ascii"))
    except ValueError:
        return ZERO_MAC


def first_line(texts: Iterable[bytes], chain: Chain) -> ParsedLine | None:
    """Return the first authentic line that names its predecessor MAC; None without one."""
    for text in texts:
        line = parse_line(text.removesuffix(b"\n"))
        if line is not None and is_authentic(chain, previous_mac_in(line), line):
            return line
    return None
