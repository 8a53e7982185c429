"""Fetches the packages of the proxy on this machine, so that the engine needs no network for them.

Which index is asked, through which proxy, trusting whom: that is what this machine's own pip is set up for.
Every file has to have a hash that the lock file names, and only built packages are taken, so nothing that was
fetched is run here.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from egress.runtime.errors import UnsupportedError

_PIP_OPTIONS: Final = (
    "--quiet",
    "--disable-pip-version-check",
    "--no-input",
    "--require-hashes",
    "--only-binary=:all:",
)


def fetch(lock: Path, into: Path) -> list[Path]:
    """Put what the lock file names for this Python into a folder. Raises `UnsupportedError`."""
    command = [*_pip(), "download", *_PIP_OPTIONS, "--requirement", str(lock), "--dest", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnsupportedError(
            "the packages of the proxy could not be fetched",
            f"see what `pip download --require-hashes -r {lock.name}` says here",
        )
    return sorted(into.glob("*.whl"))


def _pip() -> Sequence[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"]
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_exec_prefix, "bin", name)
    asked = [str(base), "-P", "-m", "pip", "--version"]
    if not base.exists() or subprocess.run(asked, capture_output=True, check=False).returncode:
        raise UnsupportedError("there is no pip beside this Python", "python -m ensurepip")
    return [str(base), "-P", "-m", "pip"]
