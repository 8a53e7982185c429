"""What ends a sandbox's processes when its runtime ends without a word.

It is a pipe in the file system that nobody writes to. The first process of the sandbox reads it, and the
runtime holds its other end: the system closes that however the runtime ends, and the sandbox's first process
has read all there was. With it all others go. It is one for each sandbox, and opens to no one for writing:
nothing passes by it.

The reader is the image's own shell. One of an image that was made to stay reads nothing: its sandbox goes on,
without a network since its door is ours, until a runtime begins again.

What is left then, a container that has ended, its network and its files, goes when a runtime begins again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PIPE_PATH: Final = "/.egress/lifeline"
"""Where it is in a sandbox."""

WAIT_SCRIPT: Final = (
    f"if (: <{PIPE_PATH}) 2>/dev/null; then read -r end <{PIPE_PATH}; else while sleep 86400; do :; done; fi"
)
"""What the first process does. Some kernels of sandboxes open no pipe of others: there it waits and nothing
more."""

_PIPE_MODE: Final = 0o444


class DeathPipe:
    """Held from when it is made until `close`."""

    def __init__(self, path: Path) -> None:
        """`path` does not exist, in a folder that does."""
        self.path = path
        os.mkfifo(path, _PIPE_MODE)
        # Whatever the mask says: the sandbox has another user.
        path.chmod(_PIPE_MODE)
        # For both, so that neither this waits for a reader nor a reader for this.
        self._end = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)

    def close(self) -> None:
        if self._end >= 0:
            os.close(self._end)
            self._end = -1
