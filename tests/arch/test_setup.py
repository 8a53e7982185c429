"""scripts/setup finds a Python by running it, says what is missing, and knows when it has nothing to do.

The interpreters here are stand-ins: they answer what a candidate is asked and refuse to make a venv.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ui.terminal import Terminal

ROOT = Path(__file__).parents[2]
TOOLS = ("cat", "cmp", "dirname", "grep", "ls", "mkdir", "mv", "rm", "sed", "sh", "sort")

GOOD = '[ "$1" = -V ] && echo "Python {version}"; [ "$1" != -m ]'
SHIM = "echo 'pyenv: command not found' >&2; exit 127"
# The question that a candidate is asked, answered by this interpreter in another's place.
ANSWER = f"""exec {sys.executable} -c "import sys; {{lie}}; exec(sys.argv[1])" "$2\""""
TOO_OLD = ANSWER.format(lie="sys.version_info = (3, 11, 7)")
WITHOUT_VENV = ANSWER.format(lie="sys.modules['ensurepip'] = None")
TRUTHFUL = ANSWER.format(lie="pass")


class Machine:
    """A copy of the script on a machine that has only what the test puts there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = root / "tree"
        (self.tree / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/setup", self.tree / "scripts")
        (self.tree / "requirements-dev.lock").write_text("a==1\n")
        for tool in TOOLS:
            self.link(tool)

    def link(self, tool: str) -> None:
        (self.root / "bin").mkdir(exist_ok=True)
        found = shutil.which(tool)
        assert found, tool
        (self.root / "bin" / tool).symlink_to(found)

    def add(self, path: str, body: str) -> Path:
        program = self.root / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        return program

    def setup(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "scripts/setup"],
            cwd=self.tree,
            env={"PATH": str(self.root / "bin"), "HOME": str(self.root)} | environment,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_a_fitting_python_it_says_what_to_install(machine: Machine) -> None:
    machine.add("bin/python3.13", SHIM)
    machine.add("bin/python3.12", WITHOUT_VENV)
    machine.add("bin/python3", TOO_OLD)
    result = machine.setup()
    assert result.returncode == 3
    assert result.stdout == ""
    first, second = result.stderr.splitlines()
    assert first == "setup: no Python 3.12 or newer with venv found"
    assert "apt install python3.13-venv" in second


def test_a_fitting_python_on_the_path_is_taken(machine: Machine) -> None:
    machine.add("bin/python3.12", TOO_OLD)
    python = machine.add("bin/python3", TRUTHFUL)
    assert f"({python})" in machine.setup().stdout


def test_a_shim_on_the_path_does_not_hide_a_python_in_pyenv(machine: Machine) -> None:
    machine.add("bin/python3.13", SHIM)
    pythons = {v: machine.add(f".pyenv/versions/{v}/bin/python", GOOD.format(version=v)) for v in PYENV}
    result = machine.setup()
    assert f"setup: using Python 3.13.10 ({pythons['3.13.10']})" in result.stdout


def test_a_terminal_sees_how_long_the_packages_take_and_nothing_of_it_afterwards(machine: Machine) -> None:
    """The stand-in of pip ends when the time was shown, and says something then."""
    for tool in ("cp", "sleep"):
        machine.link(tool)
    pip = "while [ ! -e seen ]; do sleep 0.1; done; echo a warning"
    installed = machine.add("made/python", f'case "$*" in -V) echo Python 3.13.1;; *hashes*) {pip};; esac')
    make = f"mkdir -p .venv/bin && cp {installed} .venv/bin/python"
    machine.add("bin/python3.13", f'case "$*" in -V) echo Python 3.13.1;; *venv) {make};; esac')
    environ = {"PATH": str(machine.root / "bin"), "HOME": str(machine.root)}
    with Terminal(["sh", "scripts/setup"], machine.tree, environ) as terminal:
        terminal.until(r"\r\x1b\[Ksetup: [0-9]+ s")
        (machine.tree / "seen").touch()
        assert terminal.ended() == 0, terminal.shown
    assert "\r\x1b[Ka warning\nsetup: ready\n" in terminal.shown


PYENV = ("3.9.18", "3.12.1", "3.13.9", "3.13.10", "3.14.0")


def test_a_python_that_uv_holds_is_the_last_resort(machine: Machine) -> None:
    python = machine.add("kept/python", GOOD.format(version="3.13.1"))
    machine.add("bin/uv", f'[ "$UV_PYTHON_DOWNLOADS" = never ] && [ "$1" = python ] && echo {python}')
    assert f"({python})" in machine.setup().stdout


def test_a_named_python_is_the_only_candidate(machine: Machine) -> None:
    machine.add("bin/python3.13", GOOD.format(version="3.13.1"))
    result = machine.setup(PYTHON=str(machine.add("mine", TOO_OLD)))
    assert result.returncode == 3
    assert "mine is not a working Python 3.12 or newer" in result.stderr


def test_a_failed_install_leaves_no_stamp_behind(machine: Machine) -> None:
    machine.add("bin/python3.13", GOOD.format(version="3.13.1"))
    result = machine.setup()
    assert result.returncode == 3
    assert "the packages could not be installed" in result.stderr
    assert not (machine.tree / ".venv/.complete").exists()


def finished(machine: Machine) -> Path:
    """A .venv that a set-up on this machine has finished."""
    machine.add("tree/.venv/bin/python", GOOD.format(version="3.13.1"))
    stamp = machine.tree / ".venv/.complete"
    stamp.write_text(f"{machine.tree}\nPython 3.13.1\na==1\n")
    return stamp


def test_a_finished_set_up_is_silent_and_needs_no_python_outside(machine: Machine) -> None:
    finished(machine)
    result = machine.setup()
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_what_the_lock_does_not_say_does_not_start_it_again(machine: Machine) -> None:
    finished(machine)
    (machine.tree / "pyproject.toml").write_text("[project]\n")
    (machine.tree / "requirements-dev.lock").touch()
    assert machine.setup().returncode == 0


@pytest.mark.parametrize("changed", ["lock", "folder", "interpreter", "stamp"])
def test_it_starts_again_when_what_it_was_made_from_has_changed(changed: str, machine: Machine) -> None:
    stamp = finished(machine)
    match changed:
        case "lock":
            (machine.tree / "requirements-dev.lock").write_text("a==2\n")
        case "folder":
            machine.tree = machine.tree.rename(machine.root / "moved")
        case "interpreter":
            machine.add("tree/.venv/bin/python", GOOD.format(version="3.14.0"))
        case "stamp":
            stamp.unlink()
    assert "no Python 3.12 or newer" in machine.setup().stderr
