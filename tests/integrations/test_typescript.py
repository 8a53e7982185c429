"""The TypeScript client, in Node, against a running `egress up` with sandboxes in namespaces."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.command import put
from tests.integrations.packages import CLIENT, Workshop, run
from tests.proxy.clients.cache import work

pytestmark = [pytest.mark.system("npm", "npm"), pytest.mark.timeout(300)]

AGAINST_SANDBOXES = (
    "commands",
    "files",
    "interactive",
    "policy",
    "processes",
    "sandboxes",
    "sessions",
)


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("program", AGAINST_SANDBOXES)
def test_the_client_against_real_sandboxes(
    program: str, workshop: Workshop, node: Path, up: Path | None
) -> None:
    workshop.test(node, f"{program}.test.js", {"EGRESS_RUNTIME_DIR": str(up)})


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_project_takes_the_package_as_the_guide_says(tmp_path: Path, node: Path) -> None:
    """`npm ci` in its folder builds it, with the compiler from the registry of this machine."""
    package, project = tmp_path / "package", tmp_path / "project"
    shutil.copytree(CLIENT, package, ignore=shutil.ignore_patterns("node_modules", "dist"))
    put(project / "package.json", '{ "type": "module" }')
    work("npm", "ci", "--no-audit", "--no-fund", folder=package)
    work("npm", "install", "--no-audit", "--no-fund", package, folder=project)
    put(
        project / "program.js",
        'import { EgressClient } from "egress-client"; console.log(typeof EgressClient);',
    )
    assert run([node, "program.js"], project, {}).stdout == "function\n"
