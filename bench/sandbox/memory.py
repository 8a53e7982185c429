"""What processes hold in memory: theirs alone, and their share of what they have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

MIB = 1024.0
"""In KiB, which the kernel counts in."""


def held(processes: Iterable[int]) -> float:
    """MiB of all of them; those that have ended hold nothing."""
    found = 0
    for process in processes:
        with suppress(OSError, TypeError):
            text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
            found += int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])  # type: ignore[index] # TypeError
    return found / MIB


def named(words: Iterable[str]) -> list[int]:
    """The processes with all of these among their arguments."""
    wanted = [word.encode() for word in words]
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            data = file.read_bytes()
            if all(word in data for word in wanted):
                found.append(int(file.parent.name))
    return found
