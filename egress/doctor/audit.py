"""Check the audit log: its folder, the space on its disk, its key, and its chain.

A small log is verified in full, like `egress log verify`. Of a large log only the end is checked, as at a
start: that is fast, and shows a tail that was cut off or changed. Nothing is written, and no lock is taken.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from egress.audit import files, key, verify_log
from egress.audit.chain import Keys
from egress.audit.chain_folders import chain_folders
from egress.audit.resume_point import ResumePoint, find_resume_point
from egress.audit.verify import HINTS
from egress.doctor.diagnosis import Diagnosis, counted, fault, from_error, note, ok, warning
from egress.doctor.file_modes import may_write
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.errors import EgressError, reason_of

MAX_FULL_CHECK_BYTES: Final = 64 * 1024**2
"""Bytes that can be verified within about a second."""
LOW_SPACE_BYTES: Final = 512 * 1024**2
NO_SPACE_BYTES: Final = 16 * 1024**2
"""Free bytes below which starting is pointless."""

_ELSEWHERE: Final = "name another folder with --audit-dir"
_TRIES: Final = 3


def check(setup: ProxyUnderCheck) -> Iterator[Diagnosis]:
    """Check the folder, then its content."""
    folder = setup.values.audit_dir
    try:
        yield from _folder(folder)
        yield from _log(setup, folder)
    except OSError as error:
        reason = reason_of(error)
        yield fault("log", f"{folder} cannot be inspected: {reason}", f"check its owner, or {_ELSEWHERE}")


def _folder(folder: Path) -> Iterator[Diagnosis]:
    # A missing folder is created at the first start, so check its nearest parent.
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield fault(
            "folder", f"{there} cannot be written; without a log, all requests are refused", _ELSEWHERE
        )
    elif folder.exists() and may_write(folder):
        cure = f"inspect it, then `chmod o-w {shlex.quote(str(folder))}`"
        yield fault("folder", f"{folder} is writable by every user", cure)
    elif folder.exists():
        yield ok("folder", f"{folder} is writable")
    else:
        yield note("folder", f"{folder} does not exist yet: the first start creates it")
    yield _room(there)


def _room(there: Path) -> Diagnosis:
    # f_bavail, because the blocks reserved for root are of no use to the proxy.
    disk = os.statvfs(there)
    free = disk.f_bavail * disk.f_frsize
    text = f"{free / 1024**3:.1f} GiB free on its disk"
    # A disk can run out of inodes before bytes; some file systems do not count inodes at all.
    if free < NO_SPACE_BYTES or (disk.f_files and not disk.f_favail):
        return fault(
            "room",
            f"{text}: sandboxes are stopped when the disk is full",
            f"free disk space, or {_ELSEWHERE}",
        )
    if free < LOW_SPACE_BYTES:
        return warning("room", text, "free disk space, or keep fewer files with --audit-keep")
    return ok("room", text)


def _log(setup: ProxyUnderCheck, folder: Path) -> Iterator[Diagnosis]:
    values = setup.values
    place = values.audit_key or values.state_dir / "audit.key"
    there = _files(folder)
    if not place.exists():
        yield _keyless(place, folder) if there else note("log", "no log yet")
        return
    try:
        # The key exists, so no new one is made: only its owner, mode and content are judged.
        known = key.read_or_create(place, folder)
        yield ok("key", f"{place} is readable only by you")
        if there:
            yield _chains(folder, known, sum(path.stat().st_size for path in there))
        else:
            yield note("log", "the log is empty")
    except EgressError as error:
        yield from_error("log", error)


def _keyless(place: Path, folder: Path) -> Diagnosis:
    return fault(
        "key",
        f"there is a log in {folder}, but its key {place} is missing: changes cannot be detected",
        "name the key with --audit-key; or move the log away to begin a new one",
    )


def _files(folder: Path) -> list[Path]:
    """Return the files of all chains."""
    chains = [chain.path for chain in chain_folders(folder) if chain.path.is_dir()]
    return [path / files.name(number) for path in chains for number in files.numbers(path)]


def _chains(folder: Path, known: bytes, size: int) -> Diagnosis:
    if size <= MAX_FULL_CHECK_BYTES:
        found = verify_log(folder, known)
        if found.faults:
            first = found.faults[0]
            more = f" (and {len(found.faults) - 1} more)" if len(found.faults) > 1 else ""
            return fault("log", f"{first}{more}", first.hint)
        newest = _newest([chain.found.newest for chain in found.chains])
        return ok("log", f"{counted(found.lines, 'line')}, verified; {newest}")
    ends = []
    for chain in chain_folders(folder):
        end = _settled(chain.path, Keys.of(known)) if chain.path.is_dir() else None
        # A killed process leaves an unfinished line: harmless, the next start handles it.
        if end is not None and end.gap is not None and end.gap.kind != "killed":
            return fault("log", f"its end failed verification ({end.gap.kind})", HINTS["altered"])
        ends += [] if end is None else [end.end.seq]
    return ok("log", f"its end is verified; {_newest(ends)}; `egress log verify` checks all")


def _newest(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"the newest line is number {numbers[0]}"
    return f"it has {counted(len(numbers), 'chain')}"


def _settled(folder: Path, keys: Keys) -> ResumePoint:
    """Return what a start would find. A running writer can look like damage, but not three times."""
    for _ in range(_TRIES - 1):
        found = find_resume_point(folder, keys)
        if found.gap is None or found.gap.kind == "killed":
            return found
    return find_resume_point(folder, keys)
