"""The files of a log: names, order, locks, and the anchor of the oldest file.

A log is a folder with `audit-000001.jsonl`, `audit-000002.jsonl` and so on. After a deletion of old files,
`anchor` holds the number of the new first file, the MAC before it, and the author of the deletion.
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
"""Anchor format without an author, from older versions."""
_MAC = 32
MAX_PRUNER_BYTES = 64
"""Bytes of the author of a deletion."""


def name(number: int) -> str:
    """Return the name of a log file."""
    return f"audit-{number:06d}.jsonl"


def numbers(directory: Path) -> list[int]:
    """Return the sorted numbers of the log files. Raises `OSError`.

    A link or a pipe with such a name is ignored, because reading it might never end.
    """
    with os.scandir(directory) as entries:
        plain = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    found = map(_NAME.fullmatch, plain)
    return sorted(int(match[1]) for match in found if match and match[0] == name(int(match[1])))


def size(directory: Path, number: int) -> int:
    """Return the size of a file in bytes; 0 if missing. Raises `OSError`."""
    try:
        return (directory / name(number)).stat().st_size
    except FileNotFoundError:
        return 0


def changed(directory: Path, number: int) -> int:
    """Return when a file was last written, in UTC microseconds; 0 if missing. Raises `OSError`."""
    try:
        return (directory / name(number)).stat().st_mtime_ns // 1000
    except FileNotFoundError:
        return 0


def open_to_append(directory: Path, number: int) -> int:
    """Open or create a log file. Raises `OSError`."""
    return _opened(directory / name(number), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def read_start(path: Path, limit: int) -> bytes:
    """Read at most `limit` bytes from the start of a file. Raises `OSError`."""
    with os.fdopen(_opened(path, os.O_RDONLY), "rb") as file:
        return file.read(limit)


def _opened(path: Path, flags: int) -> int:
    """Open a regular file; never block on a pipe. Raises `OSError`."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o640)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a plain file")


def lock(directory: Path) -> int:
    """Take the writer lock of a log until the returned descriptor is closed.

    Raises `UnreadableError` if another process holds it, and `OSError`.
    """
    # The lock is on the folder itself: a lock file could be deleted and locked a second time.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UnreadableError(
            f"another process writes to the audit log in {directory}",
            "stop that process, or use another --state-dir or --audit-dir",
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def lock_oldest(directory: Path) -> int | None:
    """Take the deletion lock of a log until the returned descriptor is closed.

    None if another process holds it or if the log has no files. Raises `OSError`.

    Both the proxy and `egress log prune` delete files, and must not write the anchor at the same time. The
    oldest file serves as the lock, so that no separate lock file is needed.
    """
    there = numbers(directory)
    if not there:
        return None
    descriptor = os.open(directory / name(there[0]), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file may have been deleted by another process before it was locked.
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
    """A deletion of old files: author, time and extent."""

    by: str
    at: int
    """UTC nanoseconds."""
    files: int
    size: int
    """Bytes."""
    seq: int
    """Number of the first remaining line."""
    is_forced: bool = False
    """True if the log was damaged and `--force` was given."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The start of a log after a deletion of old files."""

    file: int
    mac: bytes
    """The MAC of the last line before this file."""
    pruning: Pruning | None
    """The last deletion, merged with earlier ones that have no log line; None in the older format."""
    is_told: bool = False
    """True once a log line records the deletion."""


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically. Raises `OSError`."""
    fresh = path.with_name(f"{path.name}.new")
    # A file left over from a crash could have other permissions.
    fresh.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    # The same mode as the log files.
    with os.fdopen(os.open(fresh, flags, 0o640), "wb") as file:
        if os.geteuid() == 0:
            # Root may prune the log of a proxy: the proxy must still be able to read the anchor.
            owner = path.parent.stat()
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        file.write(data)
    fresh.replace(path)


def write_anchor(
    directory: Path, key: bytes, file: int, mac: bytes, of: Pruning, *, is_told: bool = False
) -> None:
    """Replace the anchor. The arguments are the fields of `Anchor`. Raises `OSError`."""
    by = of.by.encode("utf-8", "replace")[:MAX_PRUNER_BYTES]
    # A negative time would not fit the layout: a wrong clock must not stop the audit.
    numbers = (max(of.at, 0), of.files, of.size, of.seq)
    body = _LAYOUT.pack(_MAGIC, file, mac, *numbers, of.is_forced, is_told, by)
    replace_file(directory / ANCHOR, body + hmac.digest(key, body, "sha256"))


def read_anchor(directory: Path, key: bytes) -> Anchor | None:
    """Read the anchor; None if missing. Raises `ValueError` if its MAC is wrong, and `OSError`."""
    try:
        data = read_start(directory / ANCHOR, _LAYOUT.size + _MAC + 1)
    except FileNotFoundError:
        return None
    # The MAC is verified before any field is read: the layout of a forged anchor is never trusted.
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
