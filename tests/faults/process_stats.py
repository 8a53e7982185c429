"""What the kernel tells about a process: its memory and its descriptors."""

from __future__ import annotations

import contextlib
from pathlib import Path

KIBIBYTE = 1024


def resident(pid: int) -> int:
    """Bytes in memory now."""
    return _status(pid, "VmRSS")


def peak(pid: int) -> int:
    """The most bytes that were in memory at once, since `forget_peak`."""
    return _status(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    """Count the peak anew; where this user may not, it counts from the start of the process."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def descriptors(pid: int) -> int | None:
    """How many it has open; None where this user may not know."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None


def _status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * KIBIBYTE
    raise ValueError(f"the kernel tells no {field} of process {pid}")
