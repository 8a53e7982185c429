"""Check whether each sandbox can have a user of its own.

The kernel counts inotify instances and memory for pipes by user of the machine, and not by sandbox. Sandboxes
that share a user can take these from each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from egress.doctor.diagnosis import Diagnosis, note, ok
from egress.runtime.docker.sandbox_user import has_all_ids

_SHARED: Final = "can take inotify instances and memory for pipes from each other"


def check() -> Iterator[Diagnosis]:
    """Check the user of this process, which creates the sandboxes."""
    yield judged(os.geteuid(), Path("/proc/self/uid_map").read_text(encoding="ascii"))


def judged(user: int, uid_map: str) -> Diagnosis:
    """Judge by the effective user, and by the user ids that this process sees. Pure."""
    if user != 0:
        return note(
            "users",
            f"sandboxes run as your user {user}: they and your other programs {_SHARED}",
            "run egress as root, or raise fs.inotify.max_user_instances",
        )
    if not has_all_ids(uid_map):
        return note(
            "users",
            f"this process sees a range of user ids only: containers run as one user, and {_SHARED}",
            "run egress outside of this container, or raise fs.inotify.max_user_instances",
        )
    return ok("users", "each sandbox has its own, except containers with mounts or of images from elsewhere")
