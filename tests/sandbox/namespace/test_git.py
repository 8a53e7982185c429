"""A clone is given its credential on the way: a server that wants one gets it, and the sandbox never does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.sandbox import capabilities
from egress.sandbox.errors import GitDeniedError, GitError
from egress.sandbox.handle import Sandbox
from tests.fleet.memory_fleet import served
from tests.proxy.clients.scene import SECRET
from tests.sandbox.git_lab import BASIC, GitServerLab

pytestmark = pytest.mark.system("git", "git")


@pytest.fixture
def forge(namespaces: None, tmp_path: Path) -> Iterator[GitServerLab]:
    with GitServerLab(tmp_path) as forge:
        yield forge


def test_a_clone_is_given_the_credential(forge: GitServerLab) -> None:
    commit = forge.seed("theirs")
    with Sandbox.create(image=capabilities.HOST_IMAGE, runtime=forge.fleet) as box:
        found = box.git.clone(forge.url("theirs"), "copy", branch="main", depth=1, timeout=60)
        assert (found.path, found.commit) == ("copy", commit)
        assert box.files.read_text("copy/README") == "hello\n"
        held = box.exec(["grep", "-rF", SECRET, "/workspace", "/etc", "/run"]).stdout
        assert held + box.exec("env | grep -F x-access-token").stdout == ""
    requests = forge.upstream.requests
    assert {request.path for request in requests} >= {"/theirs.git/info/refs", "/theirs.git/git-upload-pack"}
    assert all(request.headers("authorization") == [BASIC] for request in requests)


def test_a_clone_over_the_socket_of_a_fleet_is_given_it_too(forge: GitServerLab) -> None:
    commit = forge.seed("theirs")
    with served(forge.fleet) as remote, Sandbox.create(image=capabilities.HOST_IMAGE, runtime=remote) as box:
        assert box.git.clone(forge.url("theirs"), timeout=60).commit == commit


def test_what_the_rules_do_not_allow_is_refused_whatever_the_credential_could(forge: GitServerLab) -> None:
    """It may be read, and not be written: that is for the rules to say."""
    forge.seed("theirs")
    with Sandbox.create(image=capabilities.HOST_IMAGE, runtime=forge.fleet) as box:
        box.git.clone(forge.url("theirs"), "copy", timeout=60)
        pushed = box.exec("git -C copy push origin HEAD:other", timeout=60)
        assert pushed.exit_code != 0
        with pytest.raises(GitError):
            box.git.clone(forge.url("none"), timeout=60)
    assert not any(request.path.endswith("git-receive-pack") for request in forge.upstream.requests)


def test_a_server_that_is_not_given_the_right_one_denies(forge: GitServerLab) -> None:
    """So it is the credential that let the others in."""
    forge.seed("theirs")
    forge.upstream._wanted = "Basic other"
    with (
        Sandbox.create(image=capabilities.HOST_IMAGE, runtime=forge.fleet) as box,
        pytest.raises(GitDeniedError),
    ):
        box.git.clone(forge.url("theirs"), timeout=60)
