"""Downloads the packages of the proxy on this machine, so that the build needs no network.

The index, its proxy and its trusted roots come from this machine's pip configuration. Every file needs a hash
from the lock file, and only wheels are accepted, so no downloaded code runs here.
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
    """Download the packages of the lock file into a folder. Raises `UnsupportedError`."""
    command = [*_pip(), "download", *_PIP_OPTIONS, "--requirement", str(lock), "--dest", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnsupportedError(
            "cannot download the packages of the proxy",
            f"run `pip download --require-hashes -r {lock.name}` to see the error",
        )
    return sorted(into.glob("*.whl"))


def _pip() -> Sequence[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"]
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_exec_prefix, "bin", name)
    asked = [str(base), "-P", "-m", "pip", "--version"]
    if not base.exists() or subprocess.run(asked, capture_output=True, check=False).returncode:
        raise UnsupportedError("this Python has no pip", "python -m ensurepip")
    return [str(base), "-P", "-m", "pip"]
