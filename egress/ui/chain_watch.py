"""Whether the log is as the proxy wrote it: checked again and again beside the pages, by another process.

Checking reads every byte, which may take minutes; a process of its own neither holds up a page nor takes
its memory. Until it has ended once, nothing is claimed. How old the answer is always stands beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

Word = Literal["unchecked", "sound", "broken", "unknown"]
CHECK_INTERVAL = 60.0
MAX_OUTPUT_BYTES = 4 * 1024 * 1024
MAX_SHOWN_FAULTS = 50
MAX_STATUS_AGE = 900.0


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """What is known of the log."""

    word: Word = "unchecked"
    lines: int = 0
    faults: tuple[str, ...] = ()
    more: int = 0
    """Faults that are not among them."""
    newest: str = ""
    """The number and the MAC of the last line: to be kept in another place."""
    begins: str = ""
    """What was deleted before the first line, and by whom."""
    note: str = ""
    is_checking: bool = False
    age: float | None = None
    """Seconds since it was found out."""

    @property
    def is_old(self) -> bool:
        """Whether so long ago that it says little."""
        return self.age is not None and self.age > MAX_STATUS_AGE


class ChainWatch:
    """Checks by running a command, such as `egress log verify --json`."""

    def __init__(
        self,
        command: Sequence[str],
        pause: float = CHECK_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = tuple(command)
        self._pause = pause
        self._clock = clock
        self._known = ChainStatus()
        self._at: float | None = None
        self._is_checking = False

    def chain(self) -> ChainStatus:
        """What is known now."""
        age = None if self._at is None else self._clock() - self._at
        return replace(self._known, age=age, is_checking=self._is_checking)

    async def run(self) -> None:
        """Check for ever. A log that takes long to check is checked less often."""
        while True:
            began = self._clock()
            await self.check()
            await asyncio.sleep(max(self._pause, 5 * (self._clock() - began)))

    async def check(self) -> None:
        """Check once."""
        self._is_checking = True
        try:
            began = self._clock()
            self._known = await self._checked()
            self._at = began
        finally:
            self._is_checking = False

    async def _checked(self) -> ChainStatus:
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                limit=MAX_OUTPUT_BYTES,
            )
        except OSError:
            return ChainStatus("unknown", note="the check cannot be started")
        try:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, 10)
            output, said = await process.communicate()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode not in (0, 1):
            return ChainStatus("unknown", note=_first(said))
        return read(output)


def _first(said: bytes) -> str:
    """The message of a command that failed."""
    text = said[:2000].decode("utf-8", "replace").strip()
    return text.replace("\n", "; ") or "the check ended without a word"


def read(output: bytes) -> ChainStatus:
    """What `egress log verify --json` found."""
    try:
        found = json.loads(output)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("ok"), bool):
        return ChainStatus("unknown", note="the check said nothing that can be read")
    faults = [_fault(fault) for fault in found.get("faults", ()) if isinstance(fault, dict)]
    pruning = found.get("pruning")
    return ChainStatus(
        "sound" if found["ok"] else "broken",
        int(found.get("lines") or 0),
        tuple(faults[:MAX_SHOWN_FAULTS]),
        max(len(faults) - MAX_SHOWN_FAULTS, 0),
        f"{found.get('newest')} {found.get('mac')}",
        str(pruning.get("told")) if isinstance(pruning, dict) else "",
    )


def _fault(fault: dict[str, object]) -> str:
    line = fault.get("line")
    place = f"{fault.get('file')}:{line}" if line else str(fault.get("file"))
    return f"{place}: {fault.get('message')}"
