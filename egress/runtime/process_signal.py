"""Signals for all processes of a command, also for those that left its process group.

A variable marks the command. Its processes inherit it, and a script in the sandbox looks for it.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.proc_scripts import with_proc
from egress.runtime.spec import Command, ExecResult

COMMAND_VARIABLE: Final = "EGRESS_COMMAND"
"""The variable that marks the processes of a command."""

_SIGNAL_SCRIPT: Final = with_proc(Path(__file__).with_name("signal.sh"))
_NO_PROCESS_STATUS: Final = 44


def send_signal(run: Callable[[Command], ExecResult], token: str, name: str) -> None:
    """Send a signal to the processes that are marked by a token. Raises `UnsupportedError`."""
    words = ("/bin/sh", "-c", _SIGNAL_SCRIPT, "sh", name, f"{COMMAND_VARIABLE}={token}")
    # From the root folder, because the working folder may be gone.
    status = run(Command(argv=words, cwd="/")).exit_code
    if status not in (0, _NO_PROCESS_STATUS):
        raise UnsupportedError("cannot send the signal", "the image needs a POSIX shell, grep and /proc")


def signal_name(signal: str | int) -> str:
    """Return the shell's name of a signal. Raises `SpecError` for an unknown one."""
    name = str(signal).upper().removeprefix("SIG")
    with suppress(ValueError, KeyError):
        found = signals.Signals[f"SIG{name}"] if isinstance(signal, str) else signals.Signals(signal)
        return found.name.removeprefix("SIG")
    raise SpecError("unknown signal", 'use one such as "TERM", "HUP" or signal.SIGINT')
