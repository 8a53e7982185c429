"""Who goes first on a core that several processes share, so that a table shows the proxy and not the machine.

All of it is best effort: without the right to it a process stays as it is, and the figures are coarser.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def go_before_others(pid: int, niceness: int = -10) -> None:
    """Let a process go before whatever else this machine does."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, niceness)
        # Where the kernel groups processes by session, niceness counts within a group only.
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness), encoding="ascii")


def go_at_once(pid: int) -> None:
    """Let a process run the moment that it has something to do.

    Victim and upstream share a core with the neighbour. However nice the neighbour is, the scheduler lets it
    end its slice of some milliseconds first, and the table would show that. The same goes for the proxy and
    whatever else this machine does. Threads that it starts do not inherit it, and must not hold up its loop.
    """
    go_before_others(pid, -20)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
