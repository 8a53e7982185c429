"""Requests of git by method, path and query."""

from __future__ import annotations

import pytest

from egress.inspect.git.endpoint import FETCH, PUSH, GitEndpoint, is_git_path, read_endpoint
from egress.inspect.inspector import Unreadable


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/acme/app.git/info/refs?service=git-upload-pack", GitEndpoint("acme/app", FETCH, True)),
        ("GET", "/acme/app/info/refs?service=git-receive-pack", GitEndpoint("acme/app", PUSH, True)),
        ("POST", "/acme/app.git/git-upload-pack", GitEndpoint("acme/app", FETCH, False)),
        ("POST", "/acme/tools/forge/git-receive-pack", GitEndpoint("acme/tools/forge", PUSH, False)),
        ("POST", "/acme/app.git.git/git-receive-pack", GitEndpoint("acme/app.git", PUSH, False)),
        ("POST", "/app.git/git-receive-pack", GitEndpoint("app", PUSH, False)),
        ("POST", "/ACME/App/git-receive-pack", GitEndpoint("ACME/App", PUSH, False)),
        # A deny of `acme/c++` must not be passed by another spelling of it.
        ("POST", "/acme/c++/git-receive-pack", GitEndpoint("acme/c++", PUSH, False)),
        ("POST", "/acme/c%2B%2B.git/git-receive-pack", GitEndpoint("acme/c++", PUSH, False)),
        ("POST", "/acme/%C3%BCber/git-receive-pack", GitEndpoint("acme/über", PUSH, False)),
    ],
)
def test_reads_the_steps_of_fetch_and_push(method: str, target: str, expected: GitEndpoint) -> None:
    assert read_endpoint(method, target) == expected


@pytest.mark.parametrize(
    ("method", "target"),
    [
        # vector 18: the service twice
        ("GET", "/acme/app/info/refs?service=git-upload-pack&service=git-receive-pack"),
        ("GET", "/acme/app/info/refs?service=git-receive-pack&service=git-receive-pack"),
        ("GET", "/acme/app/info/refs?service=git-receive-pack&x=1"),
        ("GET", "/acme/app/info/refs?service=git%2Dreceive-pack"),
        ("GET", "/acme/app/info/refs?Service=git-receive-pack"),
        ("GET", "/acme/app/info/refs?service=git-upload-archive"),
        ("GET", "/acme/app/info/refs?"),
        ("GET", "/acme/app/info/refs"),
        ("HEAD", "/acme/app/info/refs?service=git-upload-pack"),
        ("POST", "/acme/app/info/refs?service=git-upload-pack"),
        ("GET", "/acme/app/git-receive-pack"),
        ("PUT", "/acme/app/git-receive-pack"),
        ("POST", "/acme/app/git-receive-pack?x"),
        ("POST", "/acme/app/git-receive-pack?"),
        ("POST", "/acme/app/git-receive-pack/"),
        ("POST", "/acme/app/Git-Receive-Pack"),
        ("POST", "/acme%2Fapp/git-receive-pack"),
        ("POST", "/acme%2fapp/git-receive-pack"),
        ("POST", "/acme/%FF/git-receive-pack"),
        ("POST", "//git-receive-pack"),
        ("POST", "/git-receive-pack"),
        ("POST", "/.git/git-receive-pack"),
        ("POST", "/acme/.git/git-receive-pack"),
        ("GET", "/acme/app/HEAD"),
        ("GET", "/acme/app/objects/info/packs"),
        ("POST", "/acme/app.git/info/lfs/objects/batch"),
    ],
)
def test_refuses_everything_else(method: str, target: str) -> None:
    found = read_endpoint(method, target)
    assert isinstance(found, Unreadable)
    assert found.code == "git.endpoint"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/acme/app/info/refs", True),
        ("/acme/app/git-upload-pack", True),
        ("/acme/app/Git-Receive-Pack/", True),
        ("/git-receive-pack", True),
        ("/acme/app/info/refs/x", False),
        ("/acme/app/xgit-receive-pack", False),
        ("/", False),
    ],
)
def test_knows_a_path_that_some_server_may_take_for_git_s(path: str, expected: bool) -> None:
    assert is_git_path(path) is expected
