"""Check the state folder: present, owned by us, and writable by no other user.

A user who can write into it can replace the list of trusted files, a key or an authority. Each file is
checked where it is read; this module ensures that no other user could exchange it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from egress.errors import UnreadableError, reason_of
from egress.policy.rule_file_reader import printable_path

_OTHERS_WRITE_BITS = stat.S_IWGRP | stat.S_IWOTH
_OTHER_DIR_HINT = "name another folder with --state-dir"


def make_state_dir(folder: Path) -> None:
    """Create the folder if it is missing, and check it. Raises `UnreadableError`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _trouble(folder, "created", error) from None
    # Checked after the creation, because mkdir also accepts a folder that another user made first.
    check_state_dir(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UnreadableError(
            f"the state folder {printable_path(folder)} cannot be written",
            f"check its owner, or {_OTHER_DIR_HINT}",
        )


def check_state_dir(folder: Path) -> None:
    """Raise `UnreadableError` if other users could write into the folder; a missing folder is fine."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _trouble(folder, "inspected", error) from None
    name = printable_path(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise UnreadableError(f"the state folder {name} is not a folder", _OTHER_DIR_HINT)
    # A folder of root is fine: root could exchange files anyway.
    if status.st_uid not in (os.geteuid(), 0):
        raise UnreadableError(
            f"the state folder {name} belongs to another user",
            f"run this as its owner, or {_OTHER_DIR_HINT}",
        )
    if status.st_mode & _OTHERS_WRITE_BITS:
        raise UnreadableError(
            f"the state folder {name} is open to other users (mode {stat.S_IMODE(status.st_mode):04o})",
            f"users who can write there can exchange keys: inspect it, then `chmod go-w {name}`, or "
            f"{_OTHER_DIR_HINT}",
        )


def _trouble(folder: Path, verb: str, error: OSError) -> UnreadableError:
    reason = reason_of(error)
    return UnreadableError(
        f"the state folder {printable_path(folder)} cannot be {verb}: {reason}",
        f"check the path, or {_OTHER_DIR_HINT}",
    )
