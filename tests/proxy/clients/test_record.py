"""The recorder writes down what a small suite declares and how it went, as `scripts/clients.py` asks it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SUITE = """
import pytest
from tests.proxy.clients.client import Client, proving

ONE = Client("one", "Family", lambda: "1.0", variables={"HTTPS_PROXY": "{proxy}"})
TWO = Client("two", "Family", lambda: open("/nowhere").read(), cannot={"fly": "fly"})

@ONE.proves("plain", "large")
def test_passes(): pass

@proving("injected", ONE, TWO)
def test_depends(client): assert client is ONE

@TWO.proves("fly")
@pytest.mark.skip
def test_left_out(): pass

def test_of_nobody(): pass
"""


def recorded(folder: Path, *options: str) -> dict[str, object]:
    """What the file holds after a run."""
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = proves\n")
    file = folder / "found.json"
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.proxy.clients.record",
        "--record",
        str(file),
    )
    where = ("--rootdir", str(folder), "--config-file", str(folder / "pytest.ini"), str(folder))
    subprocess.run([*command, *options, *where], cwd=ROOT, capture_output=True, check=False)
    found: dict[str, object] = json.loads(file.read_text())
    return found


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_an_outcome_is_written_of_every_test(tmp_path: Path, jobs: str) -> None:
    assert recorded(tmp_path, "-n", jobs)["outcomes"] == {
        "test_suite.py::test_passes": "passed",
        "test_suite.py::test_depends[one]": "passed",
        "test_suite.py::test_depends[two]": "failed",
        "test_suite.py::test_left_out": "skipped",
        "test_suite.py::test_of_nobody": "passed",
    }


def test_what_is_declared_is_written_without_running_a_test(tmp_path: Path) -> None:
    found = recorded(tmp_path, "--collect-only", "--versions", "-p", "no:randomly")
    assert found["outcomes"] == {}
    assert found["claims"] == [
        ["one", "plain", "test_suite.py::test_passes"],
        ["one", "large", "test_suite.py::test_passes"],
        ["one", "injected", "test_suite.py::test_depends[one]"],
        ["two", "injected", "test_suite.py::test_depends[two]"],
        ["two", "fly", "test_suite.py::test_left_out"],
    ]
    rows = found["clients"]
    assert isinstance(rows, dict)
    assert rows["one"]["version"] == "1.0"
    assert rows["one"]["variables"] == {"HTTPS_PROXY": "{proxy}"}
    # It could not be asked, which is for the caller to judge.
    assert rows["two"]["version"] == ""
