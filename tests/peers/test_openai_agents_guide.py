"""The programs of the guide to OpenAI Agents run as they stand, and do what the page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.pages import ROOT, blocks
from tests.cli.command import put
from tests.peers.fetched import run
from tests.peers.model_stand_in import ModelStandIn
from tests.peers.up_lab import TRACKER_TOKEN, UpLab, up_lab

pytestmark = [pytest.mark.timeout(600), pytest.mark.system("curl", "curl")]

PAGE = ROOT / "docs/guides/openai-agents.md"
(RULES,) = (block.text for block in blocks(PAGE) if block.language == "yaml")
PROGRAMS = {block.file: block.text for block in blocks(PAGE) if block.language == "python"}
MODEL_KEY = "made-up-model-key-77e1"
HELD = f"made-up-[a-z]*-key-77e1|{TRACKER_TOKEN.replace('made', 'mad[e]')}"


@pytest.fixture(scope="module")
def shared_lab(refusal: str) -> Iterator[UpLab | None]:
    """One with the rules of the page."""
    if refusal:
        yield None
        return
    with up_lab(
        "namespace", rules=RULES.replace("{", "{{").replace("}", "}}").replace("8443", "{port}")
    ) as lab:
        yield lab


def program(lab: UpLab, folder: Path, name: str, env: dict[str, str] | None = None) -> str:
    """Run a program of the page, at the ports of this test, and return what it printed."""
    text = (
        PROGRAMS[name].replace("127.0.0.1:8700", f"127.0.0.1:{lab.port}").replace("8443", str(lab.api.port))
    )
    around = {"CLOUDFLARE_SANDBOX_API_KEY": lab.token, **(env or {})}
    done = run(put(folder / name, text), cwd=folder, env=around)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_agent_uses_an_api_without_holding_its_credential(lab: UpLab, tmp_path: Path) -> None:
    command = (
        f"A=made-up-a-key-77e1 env | grep -cE '{HELD}'; env | grep -cE '{HELD}'; "
        f"grep -rlsE '{HELD}' /workspace /tmp /etc /home /run | wc -l; curl -s {lab.api_url}/v1/user"
    )
    with ModelStandIn(command) as model:
        env = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": MODEL_KEY}
        said = program(lab, tmp_path, "agent.py", env)
    assert '"login": "demo"' in said
    assert TRACKER_TOKEN not in said
    (output,) = model.outputs
    assert "Process exited with code 0" in output
    # A variable that is there is found, and of the two secrets nothing is.
    assert output.split("Output:")[1].split()[:3] == ["1", "0", "0"]
    assert any(f"Bearer {TRACKER_TOKEN}" in head for head in lab.api.received)


def test_a_session_without_a_model_does_what_the_page_says(lab: UpLab, tmp_path: Path) -> None:
    assert program(lab, tmp_path, "session.py") == "remember\n403\n"
    listed = lab.egress("ps", "--quiet")
    assert "bridge-" not in listed.out, listed
