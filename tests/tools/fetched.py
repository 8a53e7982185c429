"""What the tools are made of: fetched from the registries once into .cache, pinned by version and hash."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Final

from tests.proxy.clients.cache import NEWER_NODE, Fetched, modules, pip_install, work

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
AGENT_PINS: Final = ROOT / "container/agents"
PROGRAMS: Final = HERE / "programs"


def _agents(folder: Path) -> None:
    """The agents, each by its own name in one folder of programs."""
    modules(AGENT_PINS, folder)
    (folder / "bin").mkdir()
    native = {
        # Their packages have a script that would put the program in its place.
        "claude": "@anthropic-ai/claude-code-linux-x64/claude",
        "opencode": "opencode-linux-x64-baseline/bin/opencode",
    }
    usual = {name: f".bin/{name}" for name in ("codex", "copilot", "gemini")}
    for name, program in {**native, **usual}.items():
        (folder / "bin" / name).symlink_to(Path("../node_modules", program))
        work(folder / "bin" / name, "--version", folder=folder)


def _claude(folder: Path) -> None:
    """Claude Code alone, of the same lock file: the gate runs one agent, and waits for no other."""
    name = "@anthropic-ai/claude-code-linux-x64"
    lock = json.loads((AGENT_PINS / "package-lock.json").read_text("utf-8"))
    pin = lock["packages"][f"node_modules/{name}"]
    work("npm", "pack", "--silent", f"{name}@{pin['version']}", folder=folder)
    (packed,) = folder.glob("*.tgz")
    digest = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode("ascii")
    if pin["integrity"] != f"sha512-{digest}":
        raise OSError(f"{name} is not what the lock file names")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    packed.unlink()
    (folder / "bin").mkdir()
    (folder / "bin/claude").symlink_to("../package/claude")
    work(folder / "bin/claude", "--version", folder=folder)


def _python(folder: Path) -> None:
    # No environment of Python: its links name this machine's own folders.
    lock = HERE / "requirements.lock"
    pip_install(sys.executable, lock, "--target", folder / "packages", folder=folder)


def _go(pins: Path, package: str, name: str, folder: Path) -> None:
    for pin in ("go.mod", "go.sum"):
        shutil.copy(pins / pin, folder)
    go = shutil.which("go", path=f"/usr/local/go/bin:{os.defpath}") or "go"
    work(go, "build", "-mod=readonly", "-o", folder / "bin" / name, package, folder=folder)


IN_SANDBOX: Final = "/opt/tools"
"""Where sandboxes see what was fetched."""
PYTHON_PROGRAM: Final = (
    f"{IN_SANDBOX}/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if sys.base_prefix != "/usr"
    else sys.executable
)
"""The Python that runs the tests, for whose version packages were fetched, as sandboxes see it."""


def seen_at(fetched: Fetched) -> str:
    """Where sandboxes see it."""
    return f"{IN_SANDBOX}/{fetched.name}"


AGENTS: Final = Fetched("agents", tuple(sorted(AGENT_PINS.glob("package*.json"))), _agents)
CLAUDE: Final = Fetched("claude-code", tuple(sorted(AGENT_PINS.glob("package*.json"))), _claude)
PYTHON: Final = Fetched("sdks-python", (HERE / "requirements.lock",), _python, tool=sys.version)
NODE: Final = Fetched(
    "sdks-node",
    tuple(sorted((PROGRAMS / "node").glob("package*.json"))),
    functools.partial(modules, PROGRAMS / "node"),
)
GH: Final = Fetched(
    "gh",
    tuple(sorted((PROGRAMS / "gh").glob("go.*"))),
    functools.partial(_go, PROGRAMS / "gh", "github.com/cli/cli/v2/cmd/gh", "gh"),
)

GLAB: Final = Fetched(
    "glab",
    tuple(sorted((PROGRAMS / "glab").glob("go.*"))),
    functools.partial(_go, PROGRAMS / "glab", "github.com/profclems/glab/cmd/glab", "glab"),
)

__all__ = ["AGENTS", "CLAUDE", "GH", "GLAB", "NEWER_NODE", "NODE", "PYTHON", "PYTHON_PROGRAM", "seen_at"]
