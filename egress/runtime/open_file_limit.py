"""The limit of open files, for sandboxes and for the process that runs them.

Theory of operation. Processes can send descriptors to each other, and the kernel counts descriptors in flight
for each user of the machine, across all processes. A user with more of them than his limit of open files
cannot send any more. An unprivileged sandbox runs as its caller, and a container's user is the host user of
that number. So a sandbox that sends and never receives would keep other sandboxes from getting their
listeners, and the runtime from handing them over. Therefore every sandbox has the same limit, and the runtime
a higher one.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

MAX_OPEN_FILES: Final = 16384
"""The limit of a process in a sandbox."""


def raise_own_limit() -> None:
    """Raise this process's limit of open files, and its children's, to the maximum."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
