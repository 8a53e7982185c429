"""`make run` shows what it promises, and the README quotes it as it is."""

from __future__ import annotations

import re
import subprocess

import pytest

from scripts.demo import TOKEN
from scripts.pages import ROOT, blocks

WIDEST = 124


@pytest.fixture(scope="module")
def shown() -> str:
    """What the demo prints, with the port of its stand-in left out: the kernel chooses it."""
    ran = subprocess.run(["sh", "scripts/demo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    return re.sub(r"(api\.example\.com):\d+", r"\1", ran.stdout)


def test_the_token_reaches_the_api_and_nothing_else(shown: str) -> None:
    assert f"authorization: Bearer {TOKEN}" in shown
    assert shown.count(TOKEN) == 1
    assert '"you_sent": "Bearer ' + "*" * len(TOKEN) + '"' in shown


def test_it_shows_two_denials_and_says_why(shown: str) -> None:
    assert "HTTP/1.1 403 Egress rule.denied" in shown
    assert "DENY" in shown.split()
    assert "HTTP/1.1 403 Egress host.unknown" in shown


def test_it_shows_a_log_that_verifies(shown: str) -> None:
    assert re.search(r"2 exchange  allow .*sent token in header:authorization  masked token 1x", shown)
    assert "ok state/audit: 5 lines in 1 file" in shown


def test_the_demo_fits_on_a_screen(shown: str) -> None:
    assert max(len(line) for line in shown.splitlines()) <= WIDEST


def test_the_readme_quotes_the_demo(shown: str) -> None:
    quoted = [block.text for block in blocks(ROOT / "README.md") if block.language == "text"]
    plain = re.sub(r"(?m)^    ", "", shown)
    assert sum(block in shown or block in plain for block in quoted) >= 3
