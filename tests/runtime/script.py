"""The supervisor as a file, as a container has it."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from egress.runtime.proc_scripts import SUPERVISOR_SCRIPT


@functools.cache
def supervisor() -> Path:
    """Its path, for as long as the tests run."""
    folder = Path(tempfile.mkdtemp(prefix="egress-supervisor-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "supervisor.sh"
    path.write_text(SUPERVISOR_SCRIPT, encoding="ascii")
    return path
