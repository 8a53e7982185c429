"""The TypeScript client, in Node, against a running `egress up` with sandboxes in namespaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integrations.packages import Workshop

pytestmark = pytest.mark.system("npm", "npm")

AGAINST_SANDBOXES = ("commands", "files", "processes", "sandboxes")


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("program", AGAINST_SANDBOXES)
def test_the_client_against_real_sandboxes(
    program: str, workshop: Workshop, node: Path, up: Path | None
) -> None:
    ran = workshop.run(
        node, "--test", f"built/{program}.test.js", env={"EGRESS_RUNTIME_DIR": str(up), "CI": ""}
    )
    assert ran.returncode == 0, ran.stdout
