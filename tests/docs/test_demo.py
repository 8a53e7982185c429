"""`make run` shows what it promises, and the README quotes it as it is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from egress.environment import read_environment
from scripts.demo import KEPT, SEARCH, TOKEN
from scripts.pages import ROOT, blocks
from tests.conftest import UNDER_CI

WIDEST = 124


@pytest.fixture(scope="module", params=["docker", "namespace"])
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints, without the port of its stand-in and with one version of curl."""
    kind = str(request.param)
    if kind == "docker" and not Path("/var/run/docker.sock").is_socket() and not UNDER_CI:
        pytest.skip("needs a container engine")
    environ = {**read_environment(), "EGRESS_RUNTIME": kind}
    kept = str(tmp_path_factory.mktemp("demo") / "kept")
    ran = subprocess.run(
        ["sh", "scripts/demo", kept], cwd=ROOT, capture_output=True, text=True, check=False, env=environ
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    plain = re.sub(r"(api\.example\.com):\d+", r"\1", ran.stdout.replace(kept, str(KEPT)))
    return re.sub(r"curl/[\d.]+", "curl/7.88.1", plain)


def test_the_token_reaches_the_api_and_nothing_else(shown: str) -> None:
    assert f"authorization: Bearer {TOKEN}" in shown
    assert shown.count(TOKEN) == 1
    assert '"you_sent": "Bearer ' + "*" * len(TOKEN) + '"' in shown


def test_it_looks_for_the_token_and_finds_nothing(shown: str) -> None:
    found = re.findall(r"made\[-\]up.*\n    (\d+)\n", shown)
    assert found == ["0", "0", "0"]


def test_the_search_would_find_it() -> None:
    environ = {**read_environment(), "PLANTED": TOKEN}
    assert subprocess.check_output(["sh", "-c", SEARCH.splitlines()[0]], env=environ) == b"1\n"


def test_it_shows_two_denials_and_says_why(shown: str) -> None:
    assert '"code": "rule.denied"' in shown
    assert "DENY" in shown.split()
    assert '"code": "host.unknown"' in shown


def test_there_is_no_way_around_the_proxy(shown: str) -> None:
    last = shown.partition("create_connection")[2].splitlines()[1]
    assert re.search("timed out|unreachable", last)


def test_it_shows_a_log_that_verifies(shown: str) -> None:
    assert re.search(r"3 exchange  allow .*sent token in header:authorization  masked token 1x", shown)
    assert re.search(r"ok state/audit: \d+ lines in 1 file", shown)


def test_the_demo_fits_on_a_screen(shown: str) -> None:
    assert max(len(line) for line in shown.splitlines()) <= WIDEST


def test_the_readme_quotes_the_demo(shown: str) -> None:
    quoted = [block.text for block in blocks(ROOT / "README.md") if block.language == "text"]
    plain = re.sub(r"(?m)^    ", "", shown)
    assert sum(block in shown or block in plain for block in quoted) >= 3
