"""Lists a folder or a file when it changes: the Python of a sandbox runs the text of this module.

    python3 -c TEXT PATH SECONDS MARK

The kernel gives notice of changes by inotify, so nothing is listed while nothing changes. Each folder is
watched before it is listed: a change that the list does not show is noticed after it. Without notices, as on
file systems that others write to, the list is made every SECONDS. The form of a list is that of `watch.sh`.

Imports nothing of Egress, and keeps to the syntax of older versions. Ends with status 3 without `ctypes`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import sys
import time

try:
    import ctypes
except ImportError:
    sys.exit(3)

# Every change of content, of facts and of names; not of the second name of a file that is removed.
EVENTS = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x04000000
MAX_FOLDERS = 8192
"""More of them would use up the watches of other programs in the sandbox."""
LOCAL_FILE_SYSTEMS = frozenset(
    (b"bcachefs", b"btrfs", b"ext2", b"ext3", b"ext4", b"f2fs", b"overlay", b"tmpfs", b"xfs", b"zfs")
)
"""File systems that only this kernel writes to, and so gives notice of."""


class Notices:
    """What the kernel tells of changes."""

    def __init__(self) -> None:
        """Raises `OSError` or `AttributeError` where there are none."""
        self._library = ctypes.CDLL(None, use_errno=True)
        self._number = self._library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._number < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._count = 0

    def watch(self, path: bytes) -> None:
        """Watch a folder or a file, if it is there. Raises `OSError` if too many are watched."""
        self._count += 1
        failed = self._library.inotify_add_watch(self._number, path, EVENTS) < 0
        # At its limit the kernel reports ENOSPC; other errors are those of a path that has changed meanwhile.
        if self._count > MAX_FOLDERS or (failed and ctypes.get_errno() == errno.ENOSPC):
            raise OSError(errno.ENOSPC, "too many folders")

    def drain(self) -> None:
        """Forget the changes so far, before a list is made."""
        self._count = 0
        with contextlib.suppress(BlockingIOError):
            while os.read(self._number, 65536):
                """There may be more."""

    def wait(self) -> None:
        """Wait for a change."""
        select.select([self._number], [], [])

    def close(self) -> None:
        """Give the watches back."""
        os.close(self._number)


def is_noticed(path: bytes, mounts: bytes) -> bool:
    """Return whether all changes at and below a path are noticed, by the text of `mountinfo`."""
    found = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(b" - ")
        # A later mount at the same place hides the earlier one. Spaces are written as octal numbers.
        point = before.split(b" ")[4].replace(b"\\040", b" ").replace(b"\\134", b"\\")
        found[point.rstrip(b"/") + b"/"] = after.split(b" ")[0]
    whole = path.rstrip(b"/") + b"/"
    above = max((point for point in found if whole.startswith(point)), key=len, default=b"")
    kinds = [found.get(above, b"")] + [found[point] for point in found if point.startswith(whole)]
    return all(kind in LOCAL_FILE_SYSTEMS for kind in kinds)


def find_notices(path: bytes) -> Notices | None:
    """Return the notices of changes at a path; None where some changes are not noticed."""
    try:
        with os.fdopen(os.open("/proc/self/mountinfo", os.O_RDONLY), "rb") as file:
            mounts = file.read()
        return Notices() if is_noticed(os.path.realpath(path), mounts) else None
    except (OSError, AttributeError, IndexError):
        return None


def make_list(path: bytes, mark: bytes, notices: Notices | None) -> bytes:
    """Return the list of a folder or a file, watched before it is listed; empty if nothing is there."""
    if notices is not None:
        notices.watch(path)
    try:
        found = os.lstat(path + b"/.")
    except NotADirectoryError:
        return _entry(mark, b"./.", os.lstat(path))
    except OSError:
        return b""
    parts = [_entry(mark, b".", found)]
    below = [b"."]
    while below:
        folder = below.pop()
        at = path + b"/" + folder
        if notices is not None:
            notices.watch(at)
        # A folder may be gone, and closed to this user.
        with contextlib.suppress(OSError), os.scandir(at) as entries:
            for each in entries:
                with contextlib.suppress(OSError):
                    facts = each.stat(follow_symlinks=False)
                    name = folder + b"/" + each.name
                    parts.append(_entry(mark, name, facts))
                    if stat.S_ISDIR(facts.st_mode):
                        below.append(name)
    return b"".join(parts)


def _entry(mark: bytes, name: bytes, found: os.stat_result) -> bytes:
    facts = (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return b"%s%d %x %d %d %d\n%s\n" % ((mark, *facts, name))


def follow(path: bytes, seconds: float, mark: bytes) -> None:
    """Write the list whenever it differs from the last one."""
    notices = find_notices(path)
    last = None
    while True:
        began = time.monotonic()
        try:
            if notices is not None:
                notices.drain()
            now = make_list(path, mark, notices)
        except OSError:
            # Too many folders: from now on they are listed as without notices.
            if notices is not None:
                notices.close()
            notices = None
            continue
        if now != last:
            sys.stdout.buffer.write(now + mark + b"end\n")
            sys.stdout.buffer.flush()
            last = now
        # What is not there cannot be watched, and may be made again.
        if notices is not None and now:
            notices.wait()
        time.sleep(max(0.0, began + seconds - time.monotonic()))


if __name__ == "__main__":
    try:
        follow(os.fsencode(sys.argv[1]), float(sys.argv[2]), os.fsencode(sys.argv[3]))
    except Exception:  # noqa: BLE001 - whatever it was, nobody is there to read it
        # Not 1, with which Python ends where it cannot begin: a list in another form must not follow.
        sys.exit(4)
