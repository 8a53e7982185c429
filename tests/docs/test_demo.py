"""`make run` shows what it promises, and the README quotes it as it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.pages import ROOT, blocks

WIDEST = 110


@pytest.fixture(scope="module")
def shown() -> str:
    """What the demo prints; its folder has a `.venv`, as that of somebody who runs it."""
    ran = subprocess.run(["sh", "scripts/demo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    return ran.stdout


def test_the_demo_shows_an_injection_a_stand_in_and_a_denial(shown: str) -> None:
    words = shown.split()
    assert [word for word in ("ALLOW", "injects", "swaps", "DENY") if word not in words] == []
    assert shown.count("made-up-value") == 2, "in what the upstream gets and gives, and nowhere else"


def test_the_demo_fits_on_a_screen(shown: str) -> None:
    assert max(len(line) for line in shown.splitlines()) <= WIDEST


def test_the_readme_quotes_the_demo(shown: str) -> None:
    quoted = [block for block in blocks(ROOT / "README.md") if block.language == "text"]
    assert sum(block.text in shown for block in quoted) == 3


def test_a_real_failure_fails_the_demo(tmp_path: Path) -> None:
    """A denial has exit status 1 and is fine; rules with a mistake are not."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/hosts.yaml").write_text("version: 1\nhots: {}\n")
    ran = subprocess.run(["sh", "scripts/demo"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode != 0
