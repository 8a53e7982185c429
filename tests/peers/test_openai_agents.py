"""The sandbox client of the OpenAI Agents SDK, from its package and unchanged, against the bridge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.peers.fetched import PROGRAMS, run
from tests.peers.up_lab import UpLab

pytestmark = [pytest.mark.timeout(600), pytest.mark.system("curl", "curl")]

PROGRAM = PROGRAMS / "bridge_checks.py"
IN_ONE_SESSION = (
    *("commands", "large_output", "timeout", "files", "event_like_files", "escapes", "terminal"),
    *("terminals_end_with_their_client", "archives", "bucket", "refused_commands"),
)
WITH_OWN_SESSIONS = (
    *("manifest", "concurrent_sessions", "resume_after_delete", "resume_while_it_runs", "wrong_key"),
    "profiles",
)


def check(lab: UpLab, tmp_path: Path, *words: str, given: str = "") -> str:
    """Run the program, and return what it printed."""
    env = {"CLOUDFLARE_SANDBOX_API_KEY": lab.token, "API": lab.api_url}
    done = run(PROGRAM, lab.url, *words, cwd=tmp_path, env=env, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def failures(printed: str) -> str:
    return "\n".join(f"{name}: {told}" for name, told in json.loads(printed).items())


def test_everything_that_a_session_does_works_and_it_goes_on_after_a_restart(
    lab: UpLab, tmp_path: Path
) -> None:
    # One program for all of it: it takes longer to load than to run.
    assert not failures(check(lab, tmp_path, *IN_ONE_SESSION, *WITH_OWN_SESSIONS, "kept_session"))
    state = (tmp_path / "session.json").read_text("utf-8")
    assert lab.egress("down").status == 0
    lab.up()
    assert check(lab, tmp_path, "resume", given=state) == "before\n"


@pytest.mark.nightly
def test_containers_serve_a_session_too(docker_lab: UpLab, tmp_path: Path) -> None:
    assert not failures(check(docker_lab, tmp_path, "commands", "files", "terminal", "archives", "manifest"))
