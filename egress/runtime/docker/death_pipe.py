"""Ends a sandbox's processes when its runtime dies.

The pipe is a FIFO that carries no data. The sandbox's first process reads from it, and the runtime holds the
other end. The kernel closes that end however the runtime dies; the reader gets end of file, exits, and the
kernel kills all other processes with it. Each sandbox has its own pipe, and nobody in it may open it for
writing.

A FIFO that nobody holds open blocks its reader for ever, and the runtime may die before the reader has opened
it. So the reader has a time limit for that: the pipe of a living runtime is opened at once.

The reader is the image's own shell. A manipulated shell may ignore the pipe: its sandbox then runs on without
a network, because its door belongs to us, until the next runtime removes it.

The next runtime also removes the leftovers: the ended container, its network and its files.

A sandbox that outlives its runtime opens the pipe again after its end, and waits there for the next runtime.
That wait has a time limit too, so nothing runs for ever that nobody comes back for.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

PIPE_PATH: Final = "/.egress/lifeline"
"""The path of the pipe in a sandbox."""

_OPEN_TIMEOUT: Final = 30
KEPT_TIMEOUT: Final = 86400
"""Seconds without a runtime after which the processes of a kept sandbox end. Its files stay."""


def wait_script(
    pipe: str = PIPE_PATH, open_timeout: float = _OPEN_TIMEOUT, kept_timeout: float | None = None
) -> str:
    """Return the script of a sandbox's first process, a child of the engine's init process.

    Some sandbox kernels cannot open a FIFO of the host: there it just waits. With `kept_timeout` it waits so
    long for a runtime that takes the place of one that ended.
    """
    # The timer ends the script, and with it the sandbox. When it is not needed it takes its own sleep along,
    # and is waited for, or it would stay as a zombie.
    timer = "trap 'kill $! 2>/dev/null; exit' TERM; sleep $limit & wait $!; kill $$"
    stop = "kill $timer; wait $timer"
    opened = f"{{ {stop}; read -r end; }} <{pipe}"
    unopened = f"{stop}; while sleep 86400; do :; done"
    # Each turn has its own timer: the one of the turn before ended when the pipe was opened.
    turn = f"({timer}) & timer=$!; if (: <{pipe}) 2>/dev/null; then {opened}; else {unopened}; fi"
    again = "" if kept_timeout is None else f"; limit={kept_timeout}; while :; do {turn}; done"
    return f"limit={open_timeout}; {turn}{again}"


_PIPE_MODE: Final = 0o444


class DeathPipe:
    """A pipe, open from its creation until `close`."""

    def __init__(self, path: Path, *, is_there: bool = False) -> None:
        """Create the pipe at a path that does not exist, in a folder that does.

        `is_there`: open the pipe of a runtime that ended. Raises `OSError` for anything but a pipe.
        """
        self.path = path
        if not is_there:
            os.mkfifo(path, _PIPE_MODE)
            # Despite the umask: the sandbox runs as another user.
            path.chmod(_PIPE_MODE)
        # Opened for both directions: an open for one direction blocks until the other end is opened.
        self._end = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        if not stat.S_ISFIFO(os.fstat(self._end).st_mode):
            self.close()
            raise OSError(f"{path} is not a pipe")

    def close(self) -> None:
        if self._end >= 0:
            os.close(self._end)
            self._end = -1
