"""The client of agent-sandbox, from its package and unchanged, makes sandboxes of ours and works in them."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from egress.api_server.sandbox_pools import SandboxPool
from egress.api_server.tcp_server import ApiPort
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images import product_images
from tests.api_server.port_lab import TOKEN, port_settings
from tests.container.conftest import one_at_a_time
from tests.peers.fetched import PROGRAMS, run
from tests.proxy.clients.scene import SECRET
from tests.sandbox.git_lab import GitServerLab

pytestmark = [pytest.mark.timeout(600), pytest.mark.system("git", "git")]

CHECKS = (
    *("commands", "files", "life_of_a_claim", "namespaces", "wishes_that_are_not_met", "wrong_token"),
    *("repository", "async_twin"),
)


def failures(folder: Path, kind: Literal["namespace", "docker"], image: str | None = None) -> str:
    """Run all checks against sandboxes of this kind, and return what failed."""
    pools = {"python": SandboxPool(image=image, profiles=("reviewer",))}
    with GitServerLab(folder, kind) as forge:
        forge.seed("theirs")
        with closing(ApiPort(replace(port_settings(folder), pools=pools))) as port:
            port.serve(forge.fleet)
            env = {"TOKEN": TOKEN, "REPOSITORY": forge.url("theirs"), "SECRET": SECRET}
            done: subprocess.CompletedProcess[str] = run(
                PROGRAMS / "agent_sandbox_checks.py", f"http://{port.at}", *CHECKS, cwd=folder, env=env
            )
            assert done.returncode == 0, done.stderr
            assert not forge.fleet.list()
        # Clones were served, with the credential; no push was.
        assert [request for request in forge.upstream.requests if "upload-pack" in request.target]
        assert not [request for request in forge.upstream.requests if "receive-pack" in request.target]
    return "\n".join(f"{name}: {told}" for name, told in json.loads(done.stdout).items())


@pytest.mark.usefixtures("namespaces", "peers")
def test_everything_that_a_program_does_works_on_this_machine(tmp_path: Path) -> None:
    assert not failures(tmp_path, "namespace")


@pytest.mark.nightly
@pytest.mark.usefixtures("peers")
def test_containers_serve_a_program_too(
    engine: DockerEngine, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with one_at_a_time(tmp_path_factory):
        image = product_images.sandbox_image(engine)
    assert not failures(tmp_path, "docker", image)
