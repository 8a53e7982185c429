"""The configurations of the guide to MCP lead a real client to a sandbox, as the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from egress.mcp.peer import TOOLS
from egress.mcp.versions import ENVELOPE_VERSIONS, HANDSHAKE_VERSIONS
from scripts.pages import ROOT, blocks, text
from tests.cli.command import put
from tests.peers.fetched import PROGRAMS, run
from tests.peers.test_mcp import around, served, token
from tests.peers.up_lab import UpLab

pytestmark = pytest.mark.timeout(600)

PAGE = ROOT / "docs/guides/mcp.md"
FILES = {block.file: block.text for block in blocks(PAGE) if block.language in ("json", "yaml")}


def said(lab: UpLab, folder: Path, name: str, command: str, env: dict[str, str] | None = None) -> str:
    """What a command prints in the sandbox of a configuration."""
    # Not in the project, which the sandbox may write.
    found = put(lab.folder / "bin/egress", f"#!/bin/sh\nexec '{sys.executable}' -P -m egress \"$@\"\n")
    found.chmod(0o755)
    file = put(folder / name, FILES[name])
    path = {"PATH": f"{lab.folder / 'bin'}:/usr/bin:/bin"}
    done = run(PROGRAMS / "mcp_config.py", str(file), command, cwd=folder, env={**(env or {}), **path})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_client_has_its_project_in_a_sandbox_of_its_own(lab: UpLab, tmp_path: Path) -> None:
    put(tmp_path / "project.txt", "mine\n")
    tmp_path.chmod(0o777)
    # Its user's own rules, as the page says.
    put(lab.folder / ".config/egress/hosts.yaml", FILES["hosts.yaml"])
    env = {
        **around(lab),
        "EGRESS_RUNTIME": "namespace",
        "EGRESS_RUNTIME_DIR": str(lab.folder / "alone"),
        "EGRESS_STATE_DIR": str(lab.folder / "alone-state"),
    }
    assert said(lab, tmp_path, "mcp.json", "cat project.txt; echo theirs >made.txt", env) == "mine\n"
    assert (tmp_path / "made.txt").read_text() == "theirs\n"


def test_a_kept_sandbox_is_found_again(lab: UpLab, tmp_path: Path) -> None:
    assert said(lab, tmp_path, "kept.json", "echo here >/tmp/here", around(lab)) == ""
    with served(lab, "--name", "agent", "--keep") as url:
        FILES["moved.json"] = FILES["http.json"].replace("http://127.0.0.1:8701/mcp", url)
        env = {"EGRESS_MCP_TOKEN": token(lab)}
        assert said(lab, tmp_path, "moved.json", "cat /tmp/here", env) == "here\n"
    assert lab.egress("rm", "agent").status == 0


def test_the_page_names_every_tool_and_the_versions() -> None:
    page = text(PAGE)
    table = page[page.index("| tool |") : page.index("- Each has")]
    assert set(re.findall(r"`([a-z_]+)`", table)) == set(TOOLS)
    assert f"from {HANDSHAKE_VERSIONS[0]} to {HANDSHAKE_VERSIONS[-1]}" in page
    assert f"and {ENVELOPE_VERSIONS[-1]}," in page
