"""Shell scripts that look at /proc in a sandbox, each as one text that needs no file beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PROC: Final = Path(__file__).with_name("proc.sh").read_text(encoding="ascii")


def with_proc(script: Path) -> str:
    """The text of a script, behind the functions of `proc.sh` that it calls."""
    return _PROC + script.read_text(encoding="ascii")


SUPERVISOR_PATH: Final = "/.egress/supervisor.sh"
"""Where the supervisor lies in a sandbox."""
SUPERVISOR_SCRIPT: Final = with_proc(Path(__file__).with_name("supervisor.sh"))
