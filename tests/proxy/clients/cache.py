"""Packages that clients are made of, fetched once into .cache/clients, pinned by version and hash.

They are no part of the development environment: whoever only runs the tests waits for them once. Where no
index can be reached, a test that needs them is left out with a word; under CI it fails, for there it must
run. What is fetched is named by a digest of the files that pin it, so a new pin is a new folder.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".cache/clients"
UNDER_CI = bool(os.environ.get("CI"))  # noqa: TID251 - as tests/conftest.py asks
PATIENCE = 600.0
"""Seconds for one command: an index that is slow is not an index that is missing."""


@dataclass(frozen=True)
class Fetched:
    """A folder that is there once `make` has filled it.

    `pins` are the files that decide what is in it; `tool` is what it was made with, where that matters.
    """

    name: str
    pins: tuple[Path, ...]
    make: Callable[[Path], None]
    tool: str = ""

    @functools.cached_property
    def folder(self) -> Path:
        """Where it is or will be; asking for it fetches nothing."""
        digest = hashlib.sha256(self.tool.encode())
        for pin in self.pins:
            digest.update(b"\0" + pin.read_bytes())
        return CACHE / f"{self.name}-{digest.hexdigest()[:12]}"

    def require(self, request: pytest.FixtureRequest) -> None:
        """Have the folder, or leave the test out."""
        if failure := self._failure:
            what = f"what {self.pins[0].relative_to(ROOT).as_posix()} names"
            reason = f"{what} could not be fetched: {failure}"
            if UNDER_CI:
                pytest.fail(reason, pytrace=False)
            # By this name the end of a run finds what was left out.
            request.node.user_properties.append(("left-out", what))
            pytest.skip(reason)

    @functools.cached_property
    def _failure(self) -> str:
        """Why it is not there; asked once, so that a machine without an index waits once."""
        stamp = self.folder / ".complete"
        with locked(self.folder.with_suffix(".lock")):
            if stamp.is_file():
                return ""
            self.folder.mkdir(exist_ok=True)
            try:
                self.make(self.folder)
            except (subprocess.SubprocessError, OSError) as error:
                return str(error)
            stamp.touch()
        return ""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time: workers of one run come here together."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def work(*command: str | Path, folder: Path) -> None:
    """Run one step of a `make`, with the environment of the user: it tells where the index is."""
    words = [str(word) for word in command]
    with (folder / ".log").open("ab") as log:
        done = subprocess.run(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    if done.returncode:
        where = (folder / ".log").relative_to(ROOT)
        raise subprocess.SubprocessError(f"{Path(words[0]).name} failed, {where} tells why")


# What is fetched --------------------------------------------------------------------------------------

HERE = Path(__file__).parent


def pip_install(python: str | Path, lock: Path, *options: str | Path, folder: Path) -> None:
    """Install what a lock names, which is all that is needed. None is compiled, since most are never used."""
    quick = ("--no-input", "--disable-pip-version-check", "--no-compile", "--no-deps")
    pip = (python, "-m", "pip", "install", *quick, "--require-hashes", "--requirement", lock)
    work(*pip, *options, folder=folder)


def python_environment(lock: Path, folder: Path) -> None:
    """Make `venv`, an environment of Python with what a lock names."""
    work(sys.executable, "-m", "venv", "--clear", folder / "venv", folder=folder)
    pip_install(folder / "venv/bin/python", lock, folder=folder)


def modules(pins: Path, folder: Path) -> None:
    """Packages of npm, by the npm of this machine; no script of theirs is run."""
    for pin in pins.glob("package*.json"):
        (folder / pin.name).write_bytes(pin.read_bytes())
    # Where there is no index, its own patience would be more than a minute.
    patience = ("--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=3000")
    work("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", *patience, folder=folder)


def _node(pins: Path, program: str, folder: Path) -> None:
    modules(pins, folder)
    if program:
        # npm passes over what is only for some machines and could not be had.
        work(folder / "node_modules/.bin" / program, "--version", folder=folder)


def _packages(name: str, program: str = "") -> Fetched:
    """The packages that the lock in one of our folders of programs names; `program` must be among them."""
    pins = HERE / "programs" / name
    return Fetched(name, tuple(sorted(pins.glob("package*.json"))), functools.partial(_node, pins, program))


LOCK = HERE / "requirements.lock"
PYTHON = Fetched("python", (LOCK,), functools.partial(python_environment, LOCK), tool=sys.version)
NODE = _packages("node")
NEWER_NODE = _packages("node24", "node")
PNPM = _packages("pnpm")
