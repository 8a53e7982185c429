"""A clone in a container is given its credential on the way, and the container never has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images.demo import demo_image
from egress.sandbox.errors import GitDeniedError
from egress.sandbox.handle import Sandbox
from tests.proxy.clients.scene import SECRET
from tests.sandbox.git_lab import BASIC, GitServerLab

pytestmark = pytest.mark.system("git", "git")


@pytest.mark.timeout(300)
def test_a_clone_is_given_the_credential(engine: DockerEngine, tmp_path: Path) -> None:
    with GitServerLab(tmp_path, "docker") as forge:
        commit = forge.seed("theirs")
        with Sandbox.create(image=demo_image(engine), runtime=forge.fleet) as box:
            found = box.git.clone(forge.url("theirs"), "copy", branch="main", depth=1, timeout=120)
            assert (found.path, found.commit) == ("copy", commit)
            assert box.files.read_text("copy/README") == "hello\n"
            held = box.exec(["grep", "-rF", SECRET, "/workspace", "/etc", "/run"]).stdout
            assert held + box.exec("env | grep -F x-access-token").stdout == ""
            assert all(request.headers("authorization") == [BASIC] for request in forge.upstream.requests)
            # So it is the credential that let it in.
            forge.upstream._wanted = "Basic other"
            with pytest.raises(GitDeniedError):
                box.git.clone(forge.url("theirs"), "again", timeout=120)
