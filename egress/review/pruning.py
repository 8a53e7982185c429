"""Pruning of a log: delete whole files, the oldest first, so that the remaining chain still verifies.

An anchor records the new first file, the MAC before it and the author of the deletion. It is written before
the first deletion; a log line follows afterwards. The newest file is never deleted. A damaged log is evidence
and must not be pruned without `--force`. The proxy may run meanwhile: a lock admits one deletion at a time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from egress.audit import Sink, files
from egress.audit.chain import Keys
from egress.audit.clock import AuditClock
from egress.audit.recorded_pruning import delete_files
from egress.audit.verify import verify
from egress.errors import ContentError, UnreadableError, UsageError, reason_of
from egress.review.entry import NotALineError, parse

TAIL_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits on the kept files. A file over any limit is deleted; 0 and None mean no limit."""

    before: int | None = None
    """UTC microseconds. Files with only older lines are deleted."""
    files: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of a pruning or of a dry run."""

    files: tuple[str, ...]
    size: int
    first: str
    """The first file afterwards."""
    kept: int
    """Remaining bytes."""


def prune(
    directory: Path,
    key: bytes,
    keep: Retention,
    *,
    by: str,
    now: int,
    is_trial: bool = False,
    is_forced: bool = False,
) -> Pruned:
    """Delete the files over the limits, the oldest first, and record `by` as the author.

    Raises `ContentError` for a damaged log, `UnreadableError` for an unreadable one, and `UsageError`
    without any limit.
    """
    if keep == Retention():
        raise UsageError("no limit is given", "give a time, a number of files or a size")
    # Verification comes before the lock: it may take minutes, and the proxy must be able to rotate meanwhile.
    if not is_forced:
        _check(directory, key)
    try:
        if not files.numbers(directory):
            raise UnreadableError(f"there is no audit log in {directory}", "name its folder with --dir")
        descriptor = files.lock_oldest(directory)
    except OSError as error:
        raise _unreadable(directory, error) from None
    if descriptor is None:
        raise UnreadableError("the proxy is deleting old files right now", "try again in a moment")
    try:
        found, gone, first = _chosen(directory, keep)
        if gone and not is_trial:
            at = now * 1000
            if not delete_files(directory, Keys.of(key), gone, first, by, at, is_forced=is_forced):
                raise ContentError(
                    f"nothing was deleted: no line of {found.first} verifies with this key",
                    "give the key that the log was written with",
                )
        return found
    except OSError as error:
        raise _unreadable(directory, error) from None
    finally:
        os.close(descriptor)


def record_pruning(directory: Path, key: bytes, clock: AuditClock) -> bool:
    """Get a log line written about the pruning; False if the next start of the proxy has to write it.

    A running proxy sees the anchor within a second. Without a proxy the log is opened here, which writes the
    line. The log of another user is never opened: its owner could not write to files created here.
    """
    # Opening fails while a proxy writes the log. The proxy then writes the line itself.
    try:
        if directory.stat().st_uid == os.geteuid():
            Sink.open(directory, key, clock=clock, in_flight=1).close()
        anchor = files.read_anchor(directory, Keys.of(key).anchor)
        return anchor is None or anchor.is_told or _is_written(directory)
    except UnreadableError:
        return _is_written(directory)
    except (OSError, ValueError):
        return False


def _is_written(directory: Path) -> bool:
    """True if a process is writing the log."""
    try:
        os.close(files.lock(directory))
    except UnreadableError:
        return True
    return False


def _unreadable(directory: Path, error: OSError) -> UnreadableError:
    reason = reason_of(error)
    return UnreadableError(
        f"cannot change the audit log in {directory}: {reason}", "name its folder with --dir"
    )


def _check(directory: Path, key: bytes) -> None:
    faults = verify(directory, key).faults
    if faults:
        raise ContentError(
            f"nothing was deleted: the log is damaged ({len(faults)} faults, the first: {faults[0]})",
            "run `egress log verify`, keep a copy of the folder, then use --force",
        )


def _chosen(directory: Path, keep: Retention) -> tuple[Pruned, list[int], int]:
    """Return the result, the files to delete and the new first file."""
    # Listed under the lock: the writer may have deleted old files since the check.
    there = files.numbers(directory)
    sizes = {number: files.size(directory, number) for number in there}
    gone = _files_to_delete(directory, there, sizes, keep)
    size = sum(sizes[number] for number in gone)
    first = there[len(gone)]
    names = tuple(map(files.name, gone))
    return Pruned(names, size, files.name(first), sum(sizes.values()) - size), gone, first


def _files_to_delete(directory: Path, there: list[int], sizes: dict[int, int], keep: Retention) -> list[int]:
    """Return the files over a limit, from the oldest on, without the newest."""
    gone: list[int] = []
    left = sum(sizes.values())
    for place, number in enumerate(there[:-1]):
        is_over = (keep.files and len(there) - place > keep.files) or (keep.size and left > keep.size)
        # The first file to stay ends the search: a hole in the chain could not be verified.
        if not is_over and not (keep.before is not None and _ends_before(directory, number, keep.before)):
            break
        gone.append(number)
        left -= sizes[number]
    return gone


def _ends_before(directory: Path, number: int, moment: int) -> bool:
    """True if the last lines of a file are older; False without a readable line, so that the file stays."""
    with (directory / files.name(number)).open("rb") as file:
        # The end of a file is enough: lines stand in the order of time.
        file.seek(max(files.size(directory, number) - TAIL_BYTES, 0))
        moments = []
        for line in file.read(TAIL_BYTES).split(b"\n"):
            try:
                moments.append(parse(line, number).moment)
            except NotALineError:
                continue
    return bool(moments) and max(moments) < moment
