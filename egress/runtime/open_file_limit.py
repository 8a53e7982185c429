"""How many files a process may have open: of a sandbox, and of whoever keeps sandboxes.

Theory of operation. Descriptors can be sent from one process to another, and the kernel counts those that are
on their way for each user of the machine, wherever his processes are. Nobody can send more while there are
more of them than he may have files open. A sandbox without rights of its own is its caller, and the user of
one in a container is whoever has that number outside. So one that sends and never receives would keep the
others from getting their listeners and their commands, and their owner from handing them over. It is given a
bound, the same for all, and whoever keeps sandboxes has a higher one.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

MAX_OPEN_FILES: Final = 16384
"""Of a process in a sandbox."""


def raise_own_limit() -> None:
    """Let this process, and those that it begins, have as many open as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
