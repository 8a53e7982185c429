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
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PIPE_PATH: Final = "/.egress/lifeline"
"""The path of the pipe in a sandbox."""

_OPEN_TIMEOUT: Final = 30


def wait_script(pipe: str = PIPE_PATH, open_timeout: float = _OPEN_TIMEOUT) -> str:
    """Return the script of a sandbox's first process, a child of the engine's init process.

    Some sandbox kernels cannot open a FIFO of the host: there it just waits.
    """
    # The timer ends the script, and with it the sandbox. When it is not needed it takes its own sleep along,
    # and is waited for, or it would stay as a zombie.
    timer = f"trap 'kill $! 2>/dev/null; exit' TERM; sleep {open_timeout} & wait $!; kill $$"
    stop = "kill $timer; wait $timer"
    opened = f"{{ {stop}; read -r end; }} <{pipe}"
    unopened = f"{stop}; while sleep 86400; do :; done"
    return f"({timer}) & timer=$!; if (: <{pipe}) 2>/dev/null; then {opened}; else {unopened}; fi"


_PIPE_MODE: Final = 0o444


class DeathPipe:
    """A pipe, open from its creation until `close`."""

    def __init__(self, path: Path) -> None:
        """Create the pipe at a path that does not exist, in a folder that does."""
        self.path = path
        os.mkfifo(path, _PIPE_MODE)
        # Despite the umask: the sandbox runs as another user.
        path.chmod(_PIPE_MODE)
        # Opened for both directions: an open for one direction blocks until the other end is opened.
        self._end = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)

    def close(self) -> None:
        if self._end >= 0:
            os.close(self._end)
            self._end = -1
