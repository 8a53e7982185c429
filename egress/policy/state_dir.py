"""The state folder: there, our own, and writable by nobody else.

Whoever can write into it can put another list of trusted files, another key or another authority in the place
of ours. What lies in it is checked where it is read; that nobody could exchange it is seen to here.
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
    """Make the folder where it is missing, and check it. Raises `UnreadableError`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _trouble(folder, "made", error) from None
    check_state_dir(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UnreadableError(
            f"the state folder {printable_path(folder)} cannot be written",
            f"check who owns it, or {_OTHER_DIR_HINT}",
        )


def check_state_dir(folder: Path) -> None:
    """Raise `UnreadableError` for one that others could write into; one that is missing is fine."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _trouble(folder, "looked at", error) from None
    name = printable_path(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise UnreadableError(f"the state folder {name} is not a folder", _OTHER_DIR_HINT)
    # What root owns, root could exchange anyway.
    if status.st_uid not in (os.geteuid(), 0):
        raise UnreadableError(
            f"the state folder {name} belongs to another user",
            f"run this as the user who owns it, or {_OTHER_DIR_HINT}",
        )
    if status.st_mode & _OTHERS_WRITE_BITS:
        raise UnreadableError(
            f"the state folder {name} is open to other users (mode {stat.S_IMODE(status.st_mode):04o})",
            f"who can write there can exchange keys: look into it, then `chmod go-w {name}`, or "
            f"{_OTHER_DIR_HINT}",
        )


def _trouble(folder: Path, what: str, error: OSError) -> UnreadableError:
    reason = reason_of(error)
    return UnreadableError(
        f"the state folder {printable_path(folder)} cannot be {what}: {reason}",
        f"check the path, or {_OTHER_DIR_HINT}",
    )
