"""Report what other users of the machine may do with a file or folder, by the modes along its path.

A world-readable file in a closed folder is readable by no other user. Access lists and root are ignored.
"""

from __future__ import annotations

import stat
from pathlib import Path


def may_read(path: Path) -> bool:
    """Report whether every user may read it. Raises `OSError`."""
    return bool(path.stat().st_mode & stat.S_IROTH) and _may_enter(path)


def may_write(path: Path) -> bool:
    """Report whether every user may write it; in a sticky folder, all own their files. Raises `OSError`."""
    mode = path.stat().st_mode
    is_shared = stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX)
    return bool(mode & stat.S_IWOTH) and not is_shared and _may_enter(path)


def group_may_enter(path: Path, group: int) -> bool:
    """Report whether all parent folders admit the users of this group. Raises `OSError`."""
    # Resolved, because a link is reached through the folders of its target.
    folders = (parent.stat() for parent in path.resolve().parents)
    return all(found.st_mode & (stat.S_IXGRP if found.st_gid == group else stat.S_IXOTH) for found in folders)


def _may_enter(path: Path) -> bool:
    """Report whether all parent folders admit every user."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents)
