"""Claude Code connects to `egress mcp`, over its streams and over HTTP, as its own check of servers says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import put
from tests.peers.test_mcp import around, served, token
from tests.peers.up_lab import UpLab
from tests.tools.fetched import CLAUDE

pytestmark = [pytest.mark.timeout(900), pytest.mark.nightly]

TIMEOUT = 120


def test_claude_code_connects(lab: UpLab, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    CLAUDE.require(request)
    program = put(lab.folder / "bin/egress", f"#!/bin/sh\nexec '{sys.executable}' -P -m egress \"$@\"\n")
    program.chmod(0o755)
    env = {
        **around(lab),
        "HOME": str(tmp_path),
        "PATH": f"{lab.folder / 'bin'}:/usr/bin:/bin",
        # It talks to nobody but the servers.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }

    def claude(*words: str) -> str:
        done = subprocess.run(
            [CLAUDE.folder / "bin/claude", "mcp", *words],
            cwd=tmp_path,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, done
        return done.stdout

    with served(lab) as url:
        claude("add", "started", "--", "egress", "mcp")
        claude("add", "--transport", "http", "there", url, "--header", f"Authorization: Bearer {token(lab)}")
        claude("add", "--transport", "http", "wrong", url, "--header", "Authorization: Bearer wrong")
        said = {line.split(":")[0]: line for line in claude("list").splitlines()}
    assert "Connected" in said["started"]
    assert "Connected" in said["there"]
    assert "Connected" not in said["wrong"]
