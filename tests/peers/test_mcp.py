"""`egress mcp` and the client of the `mcp` package, over both transports and in both kinds of versions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import environment
from tests.peers.fetched import PROGRAMS, run
from tests.peers.up_lab import TRACKER_TOKEN, UpLab, free_port
from tests.tiers import ALSO

pytestmark = [pytest.mark.timeout(600), pytest.mark.system("curl", "curl")]

PROGRAM = PROGRAMS / "mcp_checks.py"
NEWEST = "2026-07-28"
VERSIONS = {"legacy": "2025-11-25", "auto": NEWEST}
READ_ONLY = {"list_folder", "list_previews", "list_processes", "read_file", "read_process"}


def egress_words(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "egress", "mcp", *words]


def around(lab: UpLab) -> dict[str, str]:
    """The environment of `egress mcp` beside this `egress up`."""
    return {**environment(lab.folder), **lab.env}


def check(lab: UpLab, tmp_path: Path, kind: str, mode: str, *words: str, token: str = "") -> dict[str, Any]:
    """Run the program, and return what it found."""
    env = {**around(lab), "API": lab.api_url, "TOKEN_END": TRACKER_TOKEN[-8:], "MCP_TOKEN": token}
    done = run(PROGRAM, kind, mode, *words, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def judge(found: dict[str, Any], mode: str) -> None:
    assert not found["failures"]
    assert (found["version"], found["server"]) == (VERSIONS[mode], "egress")
    assert "sandbox" in found["instructions"]
    assert {name for name, hints in found["tools"].items() if hints["read_only_hint"]} == READ_ONLY
    assert len(found["tools"]) == 14
    assert any(f"Bearer {TRACKER_TOKEN}" in head for head in (found["api"]))


@contextmanager
def served(lab: UpLab, *words: str) -> Iterator[str]:
    """`egress mcp` at a port, beside `egress up`; its address."""
    port = free_port()
    command = egress_words(*words, "--api-listen", f"127.0.0.1:{port}")
    with subprocess.Popen(
        command, env=around(lab), cwd=lab.folder, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            # The last line of its start names the address.
            assert any(f"127.0.0.1:{port}/mcp" in line for line in server.stderr)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.terminate()
            server.wait(60)


def token(lab: UpLab) -> str:
    return (lab.folder / "state/mcp.token").read_text().strip()


@pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=ALSO)])
def test_a_client_that_starts_the_server_can_do_everything(mode: str, lab: UpLab, tmp_path: Path) -> None:
    found = check(lab, tmp_path, "stdio", mode, *egress_words("--profile", "tracker"))
    judge({**found, "api": lab.api.received}, mode)
    assert "run-" not in lab.egress("ps").out, "a sandbox was left behind"


@pytest.mark.parametrize("mode", [pytest.param("legacy", marks=ALSO), "auto"])
def test_a_client_that_connects_can_do_everything(mode: str, lab: UpLab, tmp_path: Path) -> None:
    with served(lab, "--profile", "tracker") as url:
        found = check(lab, tmp_path, "http", mode, url, token=token(lab))
    judge({**found, "api": lab.api.received}, mode)
    assert "run-" not in lab.egress("ps").out, "a sandbox was left behind"
