"""The programs of the guide to agent-sandbox run as they stand, and do what the page says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.pages import ROOT, blocks
from tests.cli.command import put
from tests.peers.fetched import run
from tests.peers.up_lab import TRACKER_TOKEN, UpLab, up_lab

pytestmark = [pytest.mark.timeout(600), pytest.mark.system("curl", "curl")]

PAGE = ROOT / "docs/guides/agent-sandbox.md"
FILES = {block.file: block.text for block in blocks(PAGE) if block.language in ("yaml", "yml", "python")}


@pytest.fixture(scope="module")
def shared_lab(refusal: str) -> Iterator[UpLab | None]:
    """One with the rules and the pools of the page."""
    if refusal:
        yield None
        return
    rules = FILES["hosts.yaml"].replace("{", "{{").replace("}", "}}").replace("8443", "{port}")
    with up_lab("namespace", rules=rules, pools=FILES["pools.yaml"]) as lab:
        yield lab


def program(lab: UpLab, folder: Path, name: str) -> str:
    """Run a program of the page, at the ports of this test, and return what it printed."""
    text = FILES[name].replace("8443", str(lab.api.port))
    env = {"EGRESS_URL": lab.url, "EGRESS_API_TOKEN": lab.token}
    done = run(put(folder / name, text), cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_for_a_cluster_runs_without_one(lab: UpLab, tmp_path: Path) -> None:
    assert program(lab, tmp_path, "program.py") == "remember\n 403\n 200\n"
    assert [head for head in lab.api.received if f"Bearer {TRACKER_TOKEN}" in head]
    assert lab.egress("ps", "--quiet").out == ""
    logged = lab.egress("log", "query", "--verdict", "deny").out
    assert re.search(r"sandbox-claim-[0-9a-f]{8}-[0-9a-f]{8}", logged), logged


def test_a_sandbox_of_another_command_takes_commands(lab: UpLab, tmp_path: Path) -> None:
    (line,) = (block.text for block in blocks(PAGE) if block.text.startswith("egress run"))
    assert lab.egress(*shlex.split(line)[1:]).status == 0
    try:
        assert program(lab, tmp_path, "plain.py") == "HELLO\n"
    finally:
        lab.egress("rm", "builder")
