"""Ownership check of an index: an index that another user can write could hide lines, so it is refused.

The index names the parts of a log to search. Lines themselves come from the log, but a line that the index
leaves out is never found. So only the owner of the log, root or the current user may be able to write it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from egress.errors import UnreadableError

PARTS = ("", "-wal", "-shm", "-journal")
"""Suffixes of the files of a SQLite database. Each file can change its content."""
_CURE = "delete it to rebuild it from the log, or name another path with --index"


def check_ownership(place: Path, directory: Path) -> None:
    """Refuse an index that another user could have written. A missing index is fine.

    Raises `UnreadableError` and `OSError`.
    """
    # Root owns an index that root made of a proxy's log, and the owner of a log could change it anyway.
    owners = {0, os.geteuid(), directory.stat().st_uid}
    for part in PARTS:
        path = place.with_name(place.name + part)
        try:
            # `lstat`: a link would show the owner of its target.
            found = path.lstat()
        except FileNotFoundError:
            continue
        reason = _reason(found, owners)
        if reason:
            raise UnreadableError(
                f"the index {path} is not safe to use, because it could hide lines: {reason}", _CURE
            )


def _reason(found: os.stat_result, owners: set[int]) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "it is a link, or not a regular file"
    if found.st_uid not in owners:
        return f"it belongs to user {found.st_uid}, not to the owner of the log, root or you"
    return "its group or other users may write it" if found.st_mode & 0o022 else ""
