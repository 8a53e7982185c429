"""A command on a terminal of its own, as a person has it: what it shows, and the keys that end it."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

OUTPUT_TIMEOUT = 120.0
CTRL_C = b"\x03"
_LEAD = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""The terminal becomes that of its session, or Ctrl-C would reach nobody."""


class Terminal:
    """A command, from its start to its end."""

    def __init__(self, command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LEAD, *command],
            cwd=folder,
            env={**environ, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""

    def until(self, pattern: str) -> re.Match[str]:
        """What is shown, once it has this in it."""
        end = time.monotonic() + OUTPUT_TIMEOUT
        while (found := re.search(pattern, self.shown)) is None:
            assert time.monotonic() < end, f"{pattern} is not in {self.shown}"
            assert self._read(), f"it ended without {pattern}: {self.shown}"
        return found

    def press(self, key: bytes) -> None:
        """Type it."""
        os.write(self._ours, key)

    def ended(self) -> int:
        """The status with which the command has ended."""
        end = time.monotonic() + OUTPUT_TIMEOUT
        while self._read():
            assert time.monotonic() < end, f"it does not end: {self.shown}"
        return self._process.wait(OUTPUT_TIMEOUT)

    def left(self) -> list[str]:
        """Whatever of its session still runs."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                name, _, rest = stat.read_text().rpartition(")")
            except OSError:
                continue
            state, _, _, session = rest.split()[:4]
            if int(session) == self._process.pid and state != "Z":
                found.append(name)
        return found

    def _read(self) -> bool:
        """Take what it shows now; false when it has gone."""
        if not select.select([self._ours], [], [], 1)[0]:
            return True
        try:
            data = os.read(self._ours, 65536)
        except OSError:
            # Linux ends a terminal whose other side is closed with an error.
            return False
        self.shown += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(OUTPUT_TIMEOUT)
        os.close(self._ours)
