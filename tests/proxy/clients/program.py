"""Runs a program the way a sandbox would: beside the proxy, with an environment that holds nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 60.0
"""Seconds; only a program that hangs gets to know them."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How it went."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


@asynccontextmanager
async def started(
    home: Path, *command: str, environment: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program with its output piped; it does not outlive the block."""
    program, *arguments = command
    # Only the search path is taken over: a program may live beside the tests' own Python.
    found = shutil.which(program) or program
    # A script finds its interpreter by name, and a toolchain its tools: both stand beside it.
    beside = f"{Path(found).parent}:" if Path(found).is_absolute() else ""
    process = await asyncio.create_subprocess_exec(
        found,
        *arguments,
        cwd=home,
        env={"PATH": beside + os.defpath, "HOME": str(home), "LC_ALL": "C", **(environment or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def run(
    home: Path, *command: str, environment: Mapping[str, str] | None = None, patience: float = PATIENCE
) -> Ran:
    """Run a program to its end."""
    async with started(home, *command, environment=environment) as process, asyncio.timeout(patience):
        out, err = await process.communicate()
        return Ran(process.returncode or 0, out, err.decode("utf-8", "replace"))
