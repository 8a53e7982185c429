"""Letting go of old lines: whole files, the oldest first, so that the chain of the rest still holds.

An anchor says where the log begins then, which MAC stood before, and who deleted what; it is written before
anything is deleted, and a line of the log tells of it afterwards. The newest file always stays. A log that is
not sound is evidence, and nothing of it is deleted unless that is asked for. The proxy may run meanwhile: it
deletes by the same rules, one at a time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from egress.audit import Sink, files, verify
from egress.audit.chain import Keys
from egress.audit.clock import AuditClock
from egress.audit.recorded_pruning import delete_files
from egress.errors import ContentError, UnreadableError, UsageError
from egress.review.entry import NotALineError, parse

TAIL_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept: all that any of these keeps not is let go of; 0 and None keep everything."""

    before: int | None = None
    """UTC microseconds: files whose lines are all older are let go of."""
    files: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was deleted, or would be."""

    files: tuple[str, ...]
    size: int
    first: str
    """The file that the log begins with then."""
    kept: int
    """Bytes."""


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
    """Delete the files that a policy does not keep, the oldest first, and leave on record who did: `by`.

    Raises `ContentError` for a log that is not sound, `UnreadableError` for one that cannot be read, and
    `UsageError` for a policy that keeps everything.
    """
    if keep == Retention():
        raise UsageError("nothing says what to keep", "name a time, a number of files or a size")
    if not is_forced:
        _check(directory, key)
    try:
        if not files.numbers(directory):
            raise UnreadableError(f"there is no audit log in {directory}", "name its folder with --dir")
        descriptor = files.lock_oldest(directory)
    except OSError as error:
        raise _unreadable(directory, error) from None
    if descriptor is None:
        raise UnreadableError("the proxy is deleting old files just now", "try again in a moment")
    try:
        found, gone, first = _chosen(directory, keep)
        if gone and not is_trial:
            at = now * 1000
            if not delete_files(directory, Keys.of(key), gone, first, by, at, is_forced=is_forced):
                raise ContentError(
                    f"nothing was deleted: {found.first} does not say what stood before it",
                    "give the key that the log was written with",
                )
        return found
    except OSError as error:
        raise _unreadable(directory, error) from None
    finally:
        os.close(descriptor)


def record_pruning(directory: Path, key: bytes, clock: AuditClock) -> bool:
    """Have a line written of what was deleted, by who writes the log; false when its next start has to.

    A proxy that runs sees the anchor within a second. Where none does, this is a start of the log and no
    more; but never for a log of somebody else, who could not write to a file that is made here.
    """
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
    """Whether somebody writes the log just now."""
    try:
        os.close(files.lock(directory))
    except UnreadableError:
        return True
    return False


def _unreadable(directory: Path, error: OSError) -> UnreadableError:
    reason = (error.strerror or type(error).__name__).lower()
    return UnreadableError(f"the audit log in {directory} cannot be changed: {reason}", "name its folder")


def _check(directory: Path, key: bytes) -> None:
    faults = verify(directory, key).faults
    if faults:
        raise ContentError(
            f"nothing was deleted: the log is not sound ({len(faults)} faults, the first: {faults[0]})",
            "look at it with `egress log verify`, keep a copy, and then use --force",
        )


def _chosen(directory: Path, keep: Retention) -> tuple[Pruned, list[int], int]:
    """What is to be deleted, and the file that the log begins with then."""
    there = files.numbers(directory)
    sizes = {number: files.size(directory, number) for number in there}
    gone = _let_go(directory, there, sizes, keep)
    size = sum(sizes[number] for number in gone)
    first = there[len(gone)]
    names = tuple(map(files.name, gone))
    return Pruned(names, size, files.name(first), sum(sizes.values()) - size), gone, first


def _let_go(directory: Path, there: list[int], sizes: dict[int, int], keep: Retention) -> list[int]:
    """The files from the oldest on that something does not keep, but never the newest."""
    gone: list[int] = []
    left = sum(sizes.values())
    for place, number in enumerate(there[:-1]):
        is_over = (keep.files and len(there) - place > keep.files) or (keep.size and left > keep.size)
        if not is_over and not (keep.before is not None and _ends_before(directory, number, keep.before)):
            break
        gone.append(number)
        left -= sizes[number]
    return gone


def _ends_before(directory: Path, number: int, moment: int) -> bool:
    """Whether the lines at the end of a file are older; false where there is none that can be read."""
    with (directory / files.name(number)).open("rb") as file:
        file.seek(max(files.size(directory, number) - TAIL_BYTES, 0))
        moments = []
        for line in file.read(TAIL_BYTES).split(b"\n"):
            try:
                moments.append(parse(line, number).moment)
            except NotALineError:
                continue
    return bool(moments) and max(moments) < moment
