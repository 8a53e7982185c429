"""The TypeScript packages as users have them: compiled by the compiler of the lock file, in node_modules.

What the lock files name comes from the registry of this machine into .cache, once.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.cli.command import environment, put
from tests.proxy.clients.cache import NEWER_NODE, ROOT, Fetched, modules

CLIENT: Final = ROOT / "integrations/typescript"
ADAPTER: Final = ROOT / "integrations/flue/egress.ts"
PROGRAMS: Final = Path(__file__).with_name("programs")
FLUE_PROGRAMS: Final = Path(__file__).with_name("flue")
OLDEST_NODE: Final = 20
TIMEOUT: Final = 280.0
"""Seconds, below the timeout of these tests: only a program that hangs gets to know them."""


def pins(folder: Path) -> Fetched:
    """What the lock file of a package names."""
    return Fetched(
        folder.name, tuple(sorted(folder.glob("package*.json"))), functools.partial(modules, folder)
    )


COMPILER: Final = pins(CLIENT)
FLUE: Final = pins(ADAPTER.parent)


@dataclass(frozen=True)
class Workshop:
    """A folder of programs whose node_modules has the client, and the nodes that run them."""

    folder: Path

    def compile(self, project: Path) -> None:
        """Compile a project in strict mode. Any finding of the compiler is a failure."""
        compiler = COMPILER.folder / "node_modules/.bin/tsc"
        # By name: the tests run with a short PATH, and node need not be on it.
        done = run([shutil.which("node") or "node", compiler, "--project", project], self.folder, {})
        assert done.returncode == 0, done.stdout

    def test(self, node: Path | str, program: str, env: Mapping[str, str] | None = None) -> None:
        """Run a program of tests. A failure shows its output, and so does one that hangs."""
        try:
            ran = self.run(node, f"built/{program}", env=env)
        except subprocess.TimeoutExpired as error:
            pytest.fail(f"it hangs after:\n{(error.stdout or b'').decode()}", pytrace=False)
        assert ran.returncode == 0, ran.stdout

    def run(
        self, node: Path | str, *words: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the folder; whatever it prints is in `stdout`."""
        return run([node, *words], self.folder, env or {})


def run(
    words: Sequence[Path | str], folder: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment(folder, env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def make_workshop(folder: Path) -> Workshop:
    """Compile the client and the programs of the tests."""
    modules_of_lock = COMPILER.folder / "node_modules"
    client = folder / "node_modules/egress-client"
    shutil.copytree(CLIENT, client, ignore=shutil.ignore_patterns("node_modules", "dist"))
    for name in ("@types", "undici-types"):
        (folder / "node_modules" / name).symlink_to(modules_of_lock / name)
    put(folder / "package.json", '{ "type": "module" }')
    shutil.copytree(PROGRAMS, folder / "programs")
    workshop = Workshop(folder)
    workshop.compile(client / "tsconfig.json")
    workshop.compile(folder / "programs/tsconfig.json")
    return workshop


def make_flue_project(folder: Path, client: Path, shown: Mapping[str, str]) -> Workshop:
    """A project with Flue: the adapter where its page puts it, the files of that page, and our programs."""
    (folder / "node_modules").mkdir()
    for module in (FLUE.folder / "node_modules").iterdir():
        (folder / "node_modules" / module.name).symlink_to(module)
    for name in ("@types", "undici-types", "egress-client"):
        (folder / "node_modules" / name).unlink(missing_ok=True)
        (folder / "node_modules" / name).symlink_to((client / "node_modules" / name).resolve())
    put(folder / "package.json", '{ "type": "module" }')
    shutil.copytree(FLUE_PROGRAMS, folder / "programs")
    (folder / "programs/sandboxes").mkdir()
    shutil.copy(ADAPTER, folder / "programs/sandboxes")
    for name, source in shown.items():
        put(folder / "programs" / name, source)
    project = Workshop(folder)
    project.compile(folder / "programs/tsconfig.json")
    return project


def machine_node() -> Path | None:
    """The node of this machine, if it is new enough for the client."""
    found = shutil.which("node")
    said = (
        subprocess.run([found, "--version"], capture_output=True, text=True, check=False) if found else None
    )
    version = re.match(r"v(\d+)\.", said.stdout) if said else None
    return Path(str(found)) if version and int(version[1]) >= OLDEST_NODE else None


def newer_node() -> Path:
    """The node that the lock file of the tests names."""
    return NEWER_NODE.folder / "node_modules/.bin/node"
