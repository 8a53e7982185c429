"""Background verification of the log, in a separate process.

Verifying reads every byte and may take minutes. A separate process neither delays a page nor uses its memory.
The page claims nothing before the first run has ended, and always shows how old the result is.
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
    """The result of the last verification."""

    word: Word = "unchecked"
    lines: int = 0
    faults: tuple[str, ...] = ()
    more: int = 0
    """Number of faults left out of `faults`."""
    newest: str = ""
    """Number and MAC of the last line. A copy kept elsewhere reveals a complete rollback."""
    begins: str = ""
    """Description of the pruning before the first line, with its author."""
    note: str = ""
    is_checking: bool = False
    age: float | None = None
    """Seconds since the verification began."""

    @property
    def is_old(self) -> bool:
        """True if the result is too old to rely on."""
        return self.age is not None and self.age > MAX_STATUS_AGE


class ChainWatch:
    """Verifies the log by running a command such as `egress log verify --json`."""

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
        """Return the current status."""
        age = None if self._at is None else self._clock() - self._at
        return replace(self._known, age=age, is_checking=self._is_checking)

    async def run(self) -> None:
        """Verify in a loop until cancelled."""
        while True:
            began = self._clock()
            await self.check()
            # A slow check rests five times as long as it ran, so it uses at most a sixth of one CPU.
            await asyncio.sleep(max(self._pause, 5 * (self._clock() - began)))

    async def check(self) -> None:
        """Verify once."""
        self._is_checking = True
        try:
            began = self._clock()
            self._known = await self._checked()
            # The age counts from the start: lines written during the check were not verified.
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
            return ChainStatus("unknown", note="cannot start `egress log verify`")
        try:
            # Pages go first: the check runs at low priority.
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, 10)
            output, errors = await process.communicate()
        finally:
            # A cancelled check must not leave its process behind.
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode not in (0, 1):
            return ChainStatus("unknown", note=_error_text(errors))
        return read(output)


def _error_text(errors: bytes) -> str:
    """Return the message of a command that failed."""
    text = errors[:2000].decode("utf-8", "replace").strip()
    return text.replace("\n", "; ") or "`egress log verify` failed without a message"


def read(output: bytes) -> ChainStatus:
    """Parse the output of `egress log verify --json`."""
    try:
        found = json.loads(output)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("ok"), bool):
        return ChainStatus("unknown", note="`egress log verify` printed no valid JSON")
    # The output comes from our own command, but a wrong type must not break every page.
    faults = [_fault(fault) for fault in found.get("faults", ()) if isinstance(fault, dict)]
    pruning = found.get("pruning")
    return ChainStatus(
        "sound" if found["ok"] else "broken",
        int(found.get("lines") or 0),
        tuple(faults[:MAX_SHOWN_FAULTS]),
        max(len(faults) - MAX_SHOWN_FAULTS, 0),
        f"{found.get('newest')} {found.get('mac')}{_more_chains(found.get('chains'))}",
        str(pruning.get("told")) if isinstance(pruning, dict) else "",
    )


def _more_chains(chains: object) -> str:
    more = len(chains) - 1 if isinstance(chains, list) else 0
    return f", and those of {more} more chains: `egress log verify` prints them" if more > 0 else ""


def _fault(fault: dict[str, object]) -> str:
    line = fault.get("line")
    place = f"{fault.get('file')}:{line}" if line else str(fault.get("file"))
    return f"{place}: {fault.get('message')}"
