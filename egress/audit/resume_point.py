"""What a start finds: where the chain goes on, and what has to be said about what came before.

It reads the head and the end of the newest file, never the whole log, and changes nothing. Four cases:

* the log ends where the head says: go on;
* the head announced more lines than there are, and everything it said was written is there: the
  process was killed in the middle of a write. What is there of those lines stays, complete lines as
  lines, the rest as a fragment; a gap of the kind `killed` closes it off in the same file;
* something that was written is not there any more (`cut`), is different (`altered`), or bytes follow
  that nobody announced (`foreign`): go on in a new file with a gap of that kind, so that what is left
  of the evidence stays untouched. `verify` reports such a gap for ever;
* the head itself is missing or damaged (`head`): go on behind the last line that is authentic, in a
  new file, with a gap of that kind. When not one line is authentic, it is the key that is wrong: that
  is refused.

Sequence numbers that were announced are never used again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

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


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where the chain goes on."""

    end: LogPosition
    """The last line that is there; a new file begins at offset 0 with the MAC of the line before."""
    offset: int
    """Where the next byte goes: behind that line, and behind a fragment that follows it."""
    next_seq: int
    """One more than the last number that was announced."""
    gap: Gap | None = None
    is_fresh: bool = False
    """There has been no line yet."""


def find_resume_point(directory: Path, keys: Keys) -> ResumePoint:
    """Look at the log in a folder. Raises `UnreadableError` for a wrong key, and `OSError`."""
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
    """Whether what the head says was written is there, as it was, with nothing behind it but the window."""
    written, intended = known.written, known.intended
    size = files.size(directory, written.file)
    if size < written.offset or (written.seq and written.file not in there):
        return "cut"
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
    """Go through the lines that were announced and not confirmed; None for bytes nobody announced."""
    written, intended = known.written, known.intended
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
    """The last line that follows from `end`; None when something that no gap accounts for is in between."""
    at, bad = end.offset, b""
    # What stands behind the last line end is no line, and stays for the gap to name.
    for text in data.split(b"\n")[:-1]:
        at += len(text) + 1
        line = parse_line(text)
        if line is None or not is_authentic(chain, end.mac, line):
            bad += text + b"\n"
            continue
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
    raise UnreadableError(
        f"the audit log in {directory} was not written with this key",
        "give the key it was written with; or move the folder away, and a new log begins",
    )


def _last_authentic(file: BinaryIO, chain: Chain) -> ParsedLine | None:
    """The last line of a file that was made with the key, whatever stands between."""
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
    """The lines of a file with their line ends; one that is too long to be ours comes in pieces."""
    while line := file.readline(MAX_LINE_BYTES):
        yield line


def previous_mac_in(line: ParsedLine) -> bytes:
    """The MAC that a line itself names as that of the line before; zeros where it names none."""
    marker = b',"previous":"'
    at = len(line.content) - 65
    if line.content[at - len(marker) : at] != marker or not line.content.endswith(b'"'):
        return ZERO_MAC
    try:
        return bytes.fromhex(line.content[at:-1].decode("ascii"))
    except ValueError:
        return ZERO_MAC


def first_line(texts: Iterable[bytes], chain: Chain) -> ParsedLine | None:
    """The first line of a file that is authentic and names the MAC in front of it; None without one."""
    for text in texts:
        line = parse_line(text.removesuffix(b"\n"))
        if line is not None and is_authentic(chain, previous_mac_in(line), line):
            return line
    return None
