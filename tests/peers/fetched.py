"""Programs that talk to the API by the protocols of others, fetched once, pinned by version and hash."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.proxy.clients.cache import Fetched, work

HERE: Final = Path(__file__).parent
PROGRAMS: Final = HERE / "programs"
PROGRAM_TIMEOUT: Final = 300.0


def _make(folder: Path) -> None:
    work(sys.executable, "-m", "venv", "--clear", folder / "venv", folder=folder)
    pip = (folder / "venv/bin/python", "-m", "pip", "install", "--no-input", "--disable-pip-version-check")
    work(*pip, "--require-hashes", "--requirement", HERE / "requirements.lock", folder=folder)


PEERS: Final = Fetched("peers", (HERE / "requirements.lock",), _make, tool=sys.version)


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
