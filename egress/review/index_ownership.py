"""Whose an index is: one that somebody else can write may hide lines, so it is not asked.

An index says in which parts of a log a line can be. What it says of a line is read from the line; that
there is none is believed. So it has to be the work of the log's owner, of root or of oneself.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from egress.errors import UnreadableError

PARTS = ("", "-wal", "-shm", "-journal")
"""The files of a database: what stands in one of them is taken for what stands in the first."""
_CURE = "delete it, and it is made anew from the lines; or name another place with --index"


def check_ownership(place: Path, directory: Path) -> None:
    """Refuse an index of the log in a folder that others could have written.

    One that is not there is fine. Raises `UnreadableError` and `OSError`.
    """
    owners = {0, os.geteuid(), directory.stat().st_uid}
    for part in PARTS:
        path = place.with_name(place.name + part)
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue
        reason = _reason(found, owners)
        if reason:
            raise UnreadableError(f"the index {path} is not used, since it could hide lines: {reason}", _CURE)


def _reason(found: os.stat_result, owners: set[int]) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "it is a link, or no plain file"
    if found.st_uid not in owners:
        return f"it belongs to user {found.st_uid}, who is neither the log's owner, nor root, nor you"
    return "its group or others may write it" if found.st_mode & 0o022 else ""
