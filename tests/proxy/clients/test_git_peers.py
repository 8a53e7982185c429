"""Rules on refs, as libraries meet them that speak git without git. Vector 21.

Behind the proxy stands `git http-backend`. A refusal names its reason to the user of each library, and an
accepted push arrives as it was sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients.git_peers import PEERS, GitPeer
from tests.proxy.clients.program import Ran
from tests.proxy.clients.test_git import BASIC, GIT, Forge, forge_with
from tests.proxy.clients.test_git_refs import last_line, refs, rules

pytestmark = [pytest.mark.nightly, pytest.mark.system("git", "git"), pytest.mark.timeout(600)]

X, MAIN = "refs/heads/agent/x", "refs/heads/main"


@pytest.fixture(params=PEERS, ids=lambda peer: peer.name)
def peer(request: pytest.FixtureRequest) -> GitPeer:
    found: GitPeer = request.param
    found.fetched.require(request)
    return found


@pytest.fixture
async def forge(tmp_path: Path) -> AsyncIterator[Forge]:
    async with forge_with(tmp_path, rules) as made:
        await made.seed("ours")
        await made.done("clone", "--quiet", made.url("ours"), "copy")
        yield made


async def push(forge: Forge, peer: GitPeer, source: str, target: str, *words: str, to: str = "ours") -> Ran:
    client = replace(
        GIT, name=peer.name, variables=peer.variables, before=(peer.before,) if peer.before else ()
    )
    forge.scene.stack.exchanges()
    forge.scene.upstream.requests.clear()
    copy = str(forge.home / "copy")
    return await forge.stage.run(client, *peer.words, copy, forge.url(to), source, target, *words)


def check_arrived(forge: Forge) -> None:
    """The last push has come upstream as it was sent, with the credential of the rules."""
    request, line = forge.scene.upstream.requests[-1], last_line(forge)
    assert request.path.endswith("/git-receive-pack")
    assert request.headers("authorization") == [BASIC]
    assert (line["verdict"], line["bytes_up"]) == ("allow", request.size)
    if line["facts"]["body_bytes"] == request.size:
        assert line["facts"]["body_sha256"] == request.digest


async def test_pushes_that_the_rules_allow_arrive(forge: Forge, peer: GitPeer) -> None:
    for name in ("ONE", "TWO"):
        commit = await forge.commit("copy", name, hashlib.shake_128(name.encode()).digest(300_000))
        ran = await push(forge, peer, MAIN, X)
        assert ran.status == 0, ran.err
        check_arrived(forge)
        assert f"{commit} commit\t{X}" in await refs(forge)
    assert str(last_line(forge)["facts"]["git_ref_1"]).endswith(" forward")
    await forge.done("fsck", "--strict", folder="served/ours.git")


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (MAIN, MAIN, "no rule allows a push to this ref"),
        (MAIN, "refs/tags/x1", "no rule allows a push to this ref"),
        ("refs/heads/old", X, "cannot prove that this is a fast-forward"),
    ],
)
async def test_a_refusal_names_its_reason(
    forge: Forge, peer: GitPeer, source: str, target: str, reason: str
) -> None:
    await forge.done("branch", "old", folder="copy")
    await forge.commit("copy", "ONE", b"1")
    await forge.done("push", "--quiet", "origin", f"{MAIN}:{X}", folder="copy")
    before = await refs(forge)
    ran = await push(forge, peer, source, target, "force")
    assert ran.status != 0
    assert reason in ran.err.lower(), ran.err
    assert last_line(forge)["verdict"] == "deny"
    assert await refs(forge) == before


async def test_another_repository_is_refused_with_a_word(forge: Forge, peer: GitPeer) -> None:
    ran = await push(forge, peer, MAIN, X, to="theirs")
    assert ran.status != 0
    assert "No rule allows this with this repository." in ran.err
    assert forge.scene.upstream.requests == []
