"""`python -m egress`, started in a folder that somebody else may write to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from egress import __version__

HOSTILE = "raise SystemExit('imported from the folder it was started in')\n"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments, "-m", "egress", "serve", "--settings"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["structlog", "click", "__future__", "asyncio", "mitmproxy", "OpenSSL"])
def test_nothing_is_imported_from_the_folder_it_is_started_in(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text(HOSTILE)
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "listen" in done.stdout


def test_where_python_adds_no_folder_none_is_taken_off(tmp_path: Path) -> None:
    """With `-P` the first entry is the standard library."""
    assert run(tmp_path, "-P").returncode == 0


def test_the_folder_is_what_python_would_look_in_first(tmp_path: Path) -> None:
    """The positive control: the trap works."""
    (tmp_path / "structlog.py").write_text(HOSTILE)
    done = subprocess.run(
        [sys.executable, "-c", "import structlog"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "imported from the folder" in done.stderr


def test_it_is_the_same_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "egress", "--version"], capture_output=True, text=True, check=False
    )
    assert __version__ in done.stdout
