"""A repository is cloned through the TypeScript client, by a credential that the sandbox never has."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from egress.api_server.server import ApiServer
from tests.fleet.memory_fleet import short_folder
from tests.integrations.packages import Workshop
from tests.proxy.clients.scene import SECRET
from tests.sandbox.git_lab import BASIC, GitServerLab

PLANTED = "/workspace/planted:made-up-other\n"
"""What the search for the credential finds: it does search."""

pytestmark = [
    pytest.mark.system("npm", "npm"),
    pytest.mark.system("git", "git"),
    pytest.mark.timeout(300),
]


@pytest.mark.usefixtures("namespaces")
def test_a_clone_is_given_the_credential_outside_of_the_sandbox(
    workshop: Workshop, node: Path, tmp_path: Path
) -> None:
    # The pattern matches the secret and is not the secret, so that it is no find of its own.
    pattern = f"[{SECRET[0]}]{SECRET[1:]}|made-up-[o]ther"
    with GitServerLab(tmp_path) as forge, short_folder() as folder:
        commit = forge.seed("theirs")
        with closing(ApiServer(forge.fleet, folder)) as server:
            env = {
                "SOCKET": str(server.path),
                "URL": forge.url("theirs"),
                "CREDENTIAL_PATTERN": pattern,
            }
            ran = workshop.run(node, "built/clone.js", env=env)
        requests = forge.upstream.requests
    assert ran.returncode == 0, ran.stdout
    assert json.loads(ran.stdout) == {"path": "copy", "commit": commit, "readme": "hello\n", "held": PLANTED}
    assert requests
    assert all(request.headers("authorization") == [BASIC] for request in requests)
