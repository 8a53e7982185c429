"""The files of a log: their names, their order, the lock, and the anchor of the oldest one.

A log is a folder with `audit-000001.jsonl`, `audit-000002.jsonl` and so on. When old files are deleted
to make room, `anchor` says which file is now the first, the MAC that stood before it, and who deleted.
"""

from __future__ import annotations

import errno
import fcntl
import hmac
import os
import re
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from egress.errors import UnreadableError

ANCHOR = "anchor"
IN_FLIGHT = "in-flight"
_NAME = re.compile(r"audit-(\d{6,12})\.jsonl")
_MAGIC = b"egranch2"
_LAYOUT = struct.Struct("<8sQ32sQQQQBB64s")
_OLD_MAGIC = b"egranch1"
_OLD_LAYOUT = struct.Struct("<8sQ32s")
"""Of logs that were pruned before it was recorded who did."""
_MAC = 32
MAX_PRUNER_BYTES = 64
"""Bytes of the name of who deleted."""


def name(number: int) -> str:
    """The name of a file of the log."""
    return f"audit-{number:06d}.jsonl"


def numbers(directory: Path) -> list[int]:
    """The numbers of the files that are there, in order. Raises `OSError`.

    What only has the name of one, such as a link or a pipe, is none: reading it might never end.
    """
    with os.scandir(directory) as entries:
        plain = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    found = map(_NAME.fullmatch, plain)
    return sorted(int(match[1]) for match in found if match and match[0] == name(int(match[1])))


def size(directory: Path, number: int) -> int:
    """How many bytes a file has; 0 when it is not there. Raises `OSError`."""
    try:
        return (directory / name(number)).stat().st_size
    except FileNotFoundError:
        return 0


def open_to_append(directory: Path, number: int) -> int:
    """Open a file of the log, which may be a new one. Raises `OSError`."""
    return _opened(directory / name(number), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def read_start(path: Path, most: int) -> bytes:
    """So many bytes of a small file, from its beginning. Raises `OSError`."""
    with os.fdopen(_opened(path, os.O_RDONLY), "rb") as file:
        return file.read(most)


def _opened(path: Path, flags: int) -> int:
    """Open a plain file, without waiting for the other end of a pipe. Raises `OSError`."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o640)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "this is not a plain file")


def lock(directory: Path) -> int:
    """Become the one writer of this folder until the returned descriptor is closed.

    Raises `UnreadableError` when somebody else is, and `OSError`.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UnreadableError(
            f"another process writes to the audit log in {directory}",
            "stop it, or give this one a --state-dir or --audit-dir of its own",
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def lock_oldest(directory: Path) -> int | None:
    """Become the one that may delete old files until the returned descriptor is closed.

    None when somebody else is, and when there are no files.

    The proxy deletes files that are too many, and so does whoever prunes the log: the anchor must not be
    written by both at once. The lock is on the oldest file, so it needs no file of its own. Raises `OSError`.
    """
    there = numbers(directory)
    if not there:
        return None
    descriptor = os.open(directory / name(there[0]), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Somebody may have deleted it before it was locked.
        if numbers(directory)[:1] == there[:1]:
            return descriptor
    except BlockingIOError:
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


@dataclass(frozen=True, slots=True)
class Pruning:
    """Who deleted old files, when, and how far."""

    by: str
    at: int
    """UTC nanoseconds."""
    files: int
    size: int
    """Bytes."""
    seq: int
    """The number of the first line that was kept."""
    is_forced: bool = False
    """Although the log was not sound."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a log begins whose oldest files were deleted."""

    file: int
    mac: bytes
    """The MAC of the last line before this file."""
    pruning: Pruning | None
    """The last one, and those before it that no line tells of yet; None where nobody had to say."""
    is_told: bool = False
    """Whether a line of the log tells of it."""


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in the place of the one before, never a part of it. Raises `OSError`."""
    fresh = path.with_name(f"{path.name}.new")
    # One that a crash left could have other rights.
    fresh.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    # The mode that the lines have, whatever the umask would leave to others.
    with os.fdopen(os.open(fresh, flags, 0o640), "wb") as file:
        if os.geteuid() == 0:
            # An administrator who prunes the log of a proxy must not lock it out.
            owner = path.parent.stat()
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        file.write(data)
    fresh.replace(path)


def write_anchor(
    directory: Path, key: bytes, file: int, mac: bytes, of: Pruning, *, is_told: bool = False
) -> None:
    """Put an anchor in the place of the one before; the arguments are as in `Anchor`. Raises `OSError`."""
    by = of.by.encode("utf-8", "replace")[:MAX_PRUNER_BYTES]
    # A clock that is far off must not be what stops the audit.
    numbers = (max(of.at, 0), of.files, of.size, of.seq)
    body = _LAYOUT.pack(_MAGIC, file, mac, *numbers, of.is_forced, is_told, by)
    replace_file(directory / ANCHOR, body + hmac.digest(key, body, "sha256"))


def read_anchor(directory: Path, key: bytes) -> Anchor | None:
    """The anchor; None when there is none. Raises `ValueError` for one of another key, and `OSError`."""
    try:
        data = read_start(directory / ANCHOR, _LAYOUT.size + _MAC + 1)
    except FileNotFoundError:
        return None
    body, mac = data[:-_MAC], data[-_MAC:]
    if hmac.compare_digest(hmac.digest(key, body, "sha256"), mac):
        if body.startswith(_MAGIC) and len(body) == _LAYOUT.size:
            return _parsed(body)
        if body.startswith(_OLD_MAGIC) and len(body) == _OLD_LAYOUT.size:
            _, number, before = _OLD_LAYOUT.unpack(body)
            return Anchor(number, before, None, is_told=True)
    raise ValueError("the anchor was not written with this key")


def _parsed(body: bytes) -> Anchor:
    _, number, before, at, count, size, seq, is_forced, is_told, name = _LAYOUT.unpack(body)
    by = name.rstrip(b"\0").decode("utf-8", "replace")
    return Anchor(number, before, Pruning(by, at, count, size, seq, bool(is_forced)), bool(is_told))
