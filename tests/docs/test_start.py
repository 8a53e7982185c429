"""What the README says to type first works as it is typed, on a machine that has nothing yet."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from scripts.console import STEP
from scripts.pages import ROOT, blocks
from tests.cli.command import environment, put
from tests.fleet.memory_fleet import short_folder
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]

PAGE = ROOT / "README.md"
PORT = "8443"
FREE_PORT = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"

pytestmark = [pytest.mark.system("curl", "curl"), pytest.mark.system("bash", "bash")]


def free_port() -> str:
    """A port that nobody uses just now: the one of the page may be taken."""
    return subprocess.run(
        [sys.executable, "-c", FREE_PORT], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.usefixtures("namespaces")
def test_the_first_steps_work_as_they_are_typed() -> None:
    found = list(blocks(PAGE))
    (start,) = [block for block in found if block.words == ("start",)]
    rules = next(block for block in found if block.language == "yaml" and block.line < start.line)
    # The page has one file of rules before its first steps, and they name it.
    assert "hosts.yaml" in start.text
    port = free_port()
    script = ""
    for line in start.text.splitlines():
        if line.startswith("$ "):
            typed = (
                line[2:].replace("demo api >", f"demo api --port {port} >").replace(f":{PORT}/", f":{port}/")
            )
            script += STEP.format(shown=line[2:].replace("'", "'\\''"), command=typed)
    with short_folder() as home:
        put(home / "hosts.yaml", rules.text.replace(PORT, port))
        program = put(home / "bin/egress", f"#!/bin/sh\nexec '{sys.executable}' -m egress \"$@\"\n")
        program.chmod(0o755)
        around = environment(home, {"EGRESS_RUNTIME": "namespace"})
        shell = subprocess.run(
            ["bash", "-c", f"{script}kill %1"],
            cwd=home,
            env={**around, "PATH": f"{home}/bin:{around['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=100,
        )
    assert shell.stdout == start.text


def test_the_first_steps_name_what_the_page_does() -> None:
    """The rules, the commands and the ports of the page are those of one story."""
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index("\n## Start\n") : text.index("\n## How it flows\n")]
    assert set(re.findall(r"api\.example\.com:(\d+)", section)) == {PORT}
    assert f"ports: [{PORT}]" in section
    assert 'eval "$(egress env)"' in section
