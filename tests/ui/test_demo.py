"""`make run` to its end: from the link that it prints to the YAML that would allow what was denied."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.environment import read_environment
from scripts.demo import keep
from scripts.pages import ROOT
from tests.cli.command import egress
from tests.conftest import UNDER_CI
from tests.ui.page_client import PageClient
from tests.ui.terminal import CTRL_C, Terminal

LINK = r"http://127\.0\.0\.1:\d+/login\?token=[\w-]+"
YAML = "- { id: new, methods: [GET], paths: [/v1/projects] }"


BOTH = [pytest.param("docker", marks=pytest.mark.nightly), "namespace"]
"""The play itself is seen in both kinds by tests/docs/test_demo.py; the page does not differ."""


@pytest.fixture(scope="module", params=BOTH)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "docker" and not Path("/var/run/docker.sock").is_socket() and not UNDER_CI:
        pytest.skip("needs a container engine")
    return str(request.param)


@pytest.fixture
def played(kind: str, tmp_path: Path) -> Iterator[Terminal]:
    """The demo on a terminal, where it keeps its log in `kept`."""
    environ = {**read_environment(), "EGRESS_RUNTIME": kind}
    environ.pop("CI", None)
    with Terminal(["sh", "scripts/demo", str(tmp_path / "kept")], ROOT, environ) as terminal:
        yield terminal


def test_a_newcomer_gets_from_the_link_to_the_yaml(played: Terminal, tmp_path: Path) -> None:
    visitor = PageClient(played.until(LINK)[0])
    played.until("Ctrl-C")
    assert visitor.first.status == 200
    assert "/v1/projects" in visitor.first.words
    newest = visitor.get("/?verdict=deny")
    one = visitor.get(newest.link(r"^/request\?id="))
    assert "GET https://api.example.com" in one.words
    assert "No rule allows this request." in one.words
    # The line of the file that decided, though the demo ran elsewhere.
    assert "9 api.example.com:" in one.words
    answer = visitor.get(one.link(r"^/suggest\?id="))
    assert YAML in answer.words

    # And it does what it says.
    rules = tmp_path / "kept/hosts.yaml"
    allow = "    allow:\n"
    assert rules.read_text().count(allow) == 1
    rules.write_text(rules.read_text().replace(allow, f"{allow}      {YAML}\n"))
    url = answer.words.partition("GET ")[2].split()[0]
    said = egress("explain", "--rules", str(rules), "GET", url, cwd=tmp_path)
    assert (said.status, "ALLOW" in said.out) == (0, True)

    played.press(CTRL_C)
    assert played.ended() == 0
    assert played.left() == []
    assert "Traceback" not in played.shown


def test_the_log_that_is_kept_is_sound_and_holds_no_token(kind: str, tmp_path: Path) -> None:
    """Not on a terminal it ends by itself, and says how the page is opened."""
    environ = {**read_environment(), "EGRESS_RUNTIME": kind}
    kept = tmp_path / "kept"
    ran = subprocess.run(
        ["sh", "scripts/demo", str(kept)], cwd=ROOT, capture_output=True, text=True, env=environ, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert egress("log", "verify", "--state-dir", str(kept), cwd=tmp_path).status == 0
    assert sorted(path.name for path in kept.iterdir()) == ["audit", "audit.key", "hosts.yaml"]
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert kept.stat().st_mode & 0o077 == 0

    words = ran.stdout.splitlines()[-1].split()
    assert words[:2] == [".venv/bin/egress", "ui"]
    serve = [sys.executable, "-m", "egress", *words[1:], "--listen", "127.0.0.1:0"]
    with Terminal(serve, ROOT, environ) as terminal:
        assert "/v1/projects" in PageClient(terminal.until(LINK)[0]).first.words
        terminal.press(CTRL_C)
        assert terminal.ended() == 0


def test_the_next_play_takes_the_place_of_the_last(tmp_path: Path) -> None:
    place = tmp_path / "below/kept"
    for number in ("one", "two"):
        folder = tmp_path / number
        (folder / "state/audit").mkdir(parents=True)
        for name in (f"state/audit/{number}", "state/audit.key", "hosts.yaml", "token"):
            (folder / name).write_text(number)
        keep(folder, place)
    assert (place / "hosts.yaml").read_text() == "two"
    assert [path.name for path in (place / "audit").iterdir()] == ["two"]
    assert [path.name for path in place.parent.iterdir()] == ["kept"]


@pytest.mark.parametrize(
    "wish", [{"CI": "true"}, pytest.param({"REVIEW": "no"}, marks=pytest.mark.nightly)], ids=["ci", "review"]
)
def test_a_terminal_of_nobody_gets_the_command_alone(wish: dict[str, str], tmp_path: Path) -> None:
    environ = {**read_environment(), "EGRESS_RUNTIME": "namespace"}
    environ.pop("CI", None)
    with Terminal(["sh", "scripts/demo", str(tmp_path / "kept")], ROOT, {**environ, **wish}) as terminal:
        assert terminal.ended() == 0
        assert "egress ui --state-dir" in terminal.shown
        assert "login?token" not in terminal.shown
