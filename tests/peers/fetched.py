"""Programs that talk to the API by the protocols of others, fetched once, pinned by version and hash."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.proxy.clients.cache import Fetched, python_environment

HERE: Final = Path(__file__).parent
PROGRAMS: Final = HERE / "programs"
PROGRAM_TIMEOUT: Final = 300.0


LOCK: Final = HERE / "requirements.lock"
PEERS: Final = Fetched("peers", (LOCK,), functools.partial(python_environment, LOCK), tool=sys.version)


def python() -> Path:
    """The Python that has them."""
    return PEERS.folder / "venv/bin/python"


def run(
    program: Path, *words: str, cwd: Path, env: Mapping[str, str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program with them, and with nothing else of this environment."""
    return subprocess.run(
        [python(), "-P", program, *words],
        cwd=cwd,
        # Without this the SDK would send a record of each run to its vendor.
        env={"PATH": os.defpath, "HOME": str(cwd), "OPENAI_AGENTS_DISABLE_TRACING": "1", **env},
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_TIMEOUT,
    )
