"""The Flue adapter in the real Flue runtime: its contract, and an agent whose sandbox holds no credential."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from egress.cli.stand_in_api import StandInApi
from scripts.pages import ROOT, blocks, text
from tests.cli.command import put
from tests.fleet.memory_fleet import short_folder
from tests.integrations.conftest import RULES, running
from tests.integrations.packages import ADAPTER, FLUE, Workshop, make_flue_project, newer_node
from tests.proxy.clients.cache import NEWER_NODE

pytestmark = [pytest.mark.system("npm", "npm"), pytest.mark.timeout(300)]


PAGE = ROOT / "docs/guides/flue.md"
SHOWN = [block for block in blocks(PAGE) if block.language == "ts"]


@pytest.fixture(scope="module")
def project(
    request: pytest.FixtureRequest, workshop: Workshop, tmp_path_factory: pytest.TempPathFactory
) -> Workshop:
    """A project with Flue and the adapter, compiled in strict mode against the real package."""
    for each in (NEWER_NODE, FLUE):
        each.require(request)
    shown = {block.words[0]: block.text for block in SHOWN if block.words}
    return make_flue_project(tmp_path_factory.mktemp("flue"), workshop.folder, shown)


@pytest.fixture(params=["namespace", pytest.param("docker", marks=pytest.mark.nightly)])
def runtime(request: pytest.FixtureRequest) -> str:
    """The kind of the sandboxes."""
    kind = str(request.param)
    request.getfixturevalue("engine" if kind == "docker" else "namespaces")
    return kind


def test_the_nine_methods_keep_their_contract(project: Workshop, runtime: str) -> None:
    with short_folder() as home, running(home, RULES, runtime=runtime):
        env = {"EGRESS_RUNTIME_DIR": str(home / "run")}
        project.test(newer_node(), "conformance.test.js", env)


TOKEN = "made-up-token-4f2a9c1e"
PATTERN = "made-up-[t]oken-4f2a9c1e|made-up-[o]ther"
AGENT_RULES = """
version: 1
secrets:
  tracker: {{ from: "env:TRACKER_TOKEN", hosts: ["api.example.com:{port}"] }}
hosts:
  api.example.com:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow: [{{ id: read, methods: [GET], paths: ["/v1/**"] }}]
    deny: [{{ id: no-keys, paths: ["/v1/user/keys/**"] }}]
    inject: [{{ bearer: tracker }}]
"""


def test_an_agent_uses_an_api_whose_credential_is_nowhere_in_its_sandbox(
    project: Workshop, runtime: str
) -> None:
    """The real Flue runtime with a scripted model; the API sees the credential, and nobody else does."""
    with StandInApi() as api, short_folder() as home:
        put(home / "api.pem", api.certificate)
        options = ("--upstream-ca", "api.pem", "--resolve", "api.example.com=127.0.0.1")
        rules, secrets = AGENT_RULES.format(port=api.port), {"TRACKER_TOKEN": TOKEN}
        with running(home, rules, *options, runtime=runtime, env=secrets):
            env = {
                "EGRESS_RUNTIME_DIR": str(home / "run"),
                "API": f"https://api.example.com:{api.port}",
                "SECRET_PATTERN": PATTERN,
            }
            ran = project.run(newer_node(), "built/agent.js", env=env)
        assert ran.returncode == 0, ran.stdout
        assert TOKEN not in ran.stdout
        user, variables, _, search, keys = json.loads(ran.stdout.splitlines()[-1])
        received = "\n".join(api.received)
        exchanges = recorded(home)
    assert json.loads(user)["login"] == "demo"
    assert "HTTPS_PROXY=" in variables
    # The search finds what was planted for it, and no credential.
    assert search.split() == ["/tmp/planted", "searched"]
    assert keys == "403"
    assert received.count(f"authorization: Bearer {TOKEN}") == received.count("GET /v1/user ") == 1
    assert {each["sandbox"].partition("-")[0] for each in exchanges} == {"flue"}
    slot = [{"secret": "tracker", "slot": "header:authorization"}]
    assert [(each["path"], each["verdict"], each["injected"]) for each in exchanges] == [
        ("/v1/user", "allow", slot),
        ("/v1/user/keys", "deny", []),
    ]


def recorded(home: Path) -> list[dict[str, Any]]:
    """The exchanges in the audit log."""
    logs = sorted((home / ".local/state/egress/audit").rglob("audit-*.jsonl"))
    lines = [json.loads(line) for log in logs for line in text(log).splitlines()]
    return [line for line in lines if line["event"] == "exchange"]


# The page -------------------------------------------------------------------------------------------


def test_the_page_holds_the_file() -> None:
    assert SHOWN[0].text == text(ADAPTER), f"copy {ADAPTER.name} into {PAGE.name}"


def test_the_marker_names_the_newest_version_of_the_page() -> None:
    versions = re.findall(r"^### Version (\d+) — \d{4}-\d\d-\d\d$", text(PAGE), re.MULTILINE)
    assert versions == [str(number + 1) for number in range(len(versions))]
    assert text(ADAPTER).startswith(f"// flue-blueprint: sandbox/egress@{versions[-1]}\n")


def test_the_agent_of_the_page_compiles(project: Workshop) -> None:
    """It stands in the project beside the programs, where the page puts it."""
    assert (project.folder / "built/agents/assistant.js").is_file()
