"""What other users of the machine may do with a file or folder: its mode says so, if they can get there.

A file that everybody may read in a folder that nobody else may enter is read by nobody else. Access lists and
root are not looked at.
"""

from __future__ import annotations

import stat
from pathlib import Path


def may_read(path: Path) -> bool:
    """Whether every user may read it. Raises `OSError`."""
    return bool(path.stat().st_mode & stat.S_IROTH) and _may_enter(path)


def may_write(path: Path) -> bool:
    """Whether every user may write it; in a shared folder, each their own files. Raises `OSError`."""
    mode = path.stat().st_mode
    is_shared = stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX)
    return bool(mode & stat.S_IWOTH) and not is_shared and _may_enter(path)


def group_may_enter(path: Path, group: int) -> bool:
    """Whether every folder on the way lets the users of this group through. Raises `OSError`."""
    folders = (parent.stat() for parent in path.resolve().parents)
    return all(found.st_mode & (stat.S_IXGRP if found.st_gid == group else stat.S_IXOTH) for found in folders)


def _may_enter(path: Path) -> bool:
    """Whether every folder on the way lets everybody through."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents)
