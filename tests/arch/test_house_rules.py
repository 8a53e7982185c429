"""tests/conftest.py does what it says: tried on small suites in a folder of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from scripts.gate import BY_QUEUE, BY_XDIST
from tests.attack.lab.harm import Finding, Harm, HarmDoneError
from tests.conftest import SLOW_FILES

ROOT = Path(__file__).parents[2]

OF_EVERY_DEBIAN = {"apt-get", "bash", "chroot", "mount", "prlimit", "setpriv", "unshare"}
"""Programs of packages that are essential there."""

NEEDS_PROGRAMS = """
import pytest

@pytest.mark.system("no-such-program", "some-package")
@pytest.mark.parametrize("n", [1, 2])
def test_one(n): raise AssertionError("must not run")

@pytest.mark.system("no-such-tool")
def test_two(): raise AssertionError("must not run")

@pytest.mark.system("sh")
def test_three(): pass
"""

REACHES_FOR_THE_NETWORK = """
import socket

def test_it():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
"""


SUITE = {
    "tests/unit/test_programs.py": NEEDS_PROGRAMS,
    "tests/unit/test_network.py": REACHES_FOR_THE_NETWORK,
    "tests/proxy/test_network.py": REACHES_FOR_THE_NETWORK,
}


def run(
    folder: Path, suite: Mapping[str, str], *options: str, jobs: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a suite under this project's configuration and conftest."""
    for file, source in suite.items():
        test = folder / file
        test.parent.mkdir(parents=True, exist_ok=True)
        test.write_text(source, encoding="utf-8")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for file in ("tests/conftest.py", "tests/file_queue.py"):
        shutil.copy(ROOT / file, folder / "tests")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        str(jobs),
        "-p",
        "no:cacheprovider",
        *(options or ["-q"]),
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


def test_a_run_ends_by_naming_what_it_left_out_and_refuses_sockets_elsewhere(tmp_path: Path) -> None:
    """Those of tests/proxy work; and what failed does not keep the run from naming what was left out."""
    result = run(tmp_path, SUITE)
    assert result.returncode == 1
    assert "left out: 2 tests need no-such-program (apt install some-package)\n" in result.stdout
    assert "left out: 1 test needs no-such-tool (apt install no-such-tool)\n" in result.stdout
    assert "1 failed, 2 passed, 3 skipped" in result.stdout
    assert "FAILED tests/unit/test_network.py::test_it" in result.stdout
    assert "this test reaches for the network" in result.stdout


DOES_HARM = """
import pytest

class Harm(Exception):
    unforgivable = True

def test_leaks():
    raise Harm("a secret")

def test_steals():
    raise ExceptionGroup("at once", [ValueError("x"), Harm("a host")])

def test_breaks():
    assert False, "something else"

def test_finds_where_it_should():
    with pytest.raises(Harm):
        raise Harm("the naive proxy")

@pytest.fixture
def proxy():
    yield
    raise Harm("at its end")

def test_is_well(proxy):
    pass
"""


def test_workers_tell_of_what_was_left_out_and_of_harm_whatever_a_second_try_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Harm is told of fixtures too; not what was expected, and no other failure."""
    told = tmp_path / "harm"
    suite = {"tests/unit/test_it.py": DOES_HARM, "tests/unit/test_programs.py": NEEDS_PROGRAMS}
    monkeypatch.setenv("EGRESS_TEST_HARM", str(told))
    result = run(tmp_path / "suite", suite, jobs=2)
    assert "3 failed, 3 passed, 3 skipped, 1 error" in result.stdout
    assert "left out: 2 tests need no-such-program (apt install some-package)\n" in result.stdout
    assert sorted(told.read_text(encoding="utf-8").splitlines()) == [
        "tests/unit/test_it.py::test_is_well: at its end",
        "tests/unit/test_it.py::test_leaks: a secret",
        "tests/unit/test_it.py::test_steals: at once (2 sub-exceptions)",
    ]


def test_under_ci_a_missing_program_is_a_failure_and_nothing_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    result = run(tmp_path, {"tests/unit/test_it.py": NEEDS_PROGRAMS})
    assert result.returncode == 1
    assert "no-such-program is missing: add some-package to the packages in .ci/run" in result.stdout
    assert "left out" not in result.stdout


TAKES_LONG = """
import pytest

@pytest.mark.timeout(600)
def test_it(): pass
"""


@pytest.mark.parametrize(
    ("options", "jobs"),
    [(BY_XDIST, 1), ((*BY_QUEUE, "--pool", "waiting", "--queue", "queue"), 0)],
    ids=["xdist", "queue"],
)
def test_a_file_that_takes_long_begins_before_files_with_more_tests(
    tmp_path: Path, options: Sequence[str], jobs: int
) -> None:
    """Else it goes on alone at the end, and so it was: xdist sorts files by the number of their tests."""
    many = "".join(f"def test_{number}(): pass\n" for number in range(4))
    slow = f"tests/{SLOW_FILES[0]}"
    suite = {"tests/ui/test_many.py": many, slow: "def test_0(): pass", "tests/proxy/test_one.py": TAKES_LONG}
    result = run(tmp_path, suite, "-v", *options, jobs=jobs)
    passed = [re.findall(r"tests/\S+", line)[0] for line in result.stdout.splitlines() if " PASSED" in line]
    assert len(passed) == 6, result.stdout
    assert passed[:2] == ["tests/proxy/test_one.py::test_it", f"{slow}::test_0"]


def test_harm_that_was_done_is_what_the_file_asks_for() -> None:
    """A secret anywhere; but not a wait, which may be the machine's."""
    stolen, starved = Finding(Harm.STOLEN, "x"), Finding(Harm.STARVED, "y")
    assert stolen.unforgivable
    assert not starved.unforgivable
    assert HarmDoneError("here", [starved, stolen]).unforgivable
    assert not HarmDoneError("here", [starved]).unforgivable


def test_every_program_that_a_test_needs_is_installed_by_ci() -> None:
    """Whatever was installed by hand where these were written, a machine that is new has none of it."""
    listed = set(re.findall(r"([\w-]+):[\w-]+", (ROOT / ".ci/run").read_text(encoding="utf-8")))
    wanted = {
        program
        for file in (ROOT / "tests").rglob("*.py")
        if file != Path(__file__)
        for program in re.findall(r'mark\.system\("([\w-]+)"', file.read_text(encoding="utf-8"))
    }
    assert {"curl", "faketime"} <= wanted, "they are found"
    assert wanted - listed <= OF_EVERY_DEBIAN
