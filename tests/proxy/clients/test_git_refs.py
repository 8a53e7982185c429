"""Rules on refs, as a real git client meets them: a refused push fails in the terminal with its reason.

Behind the proxy stands `git http-backend`. Numbers of vectors are those of the issue on git.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.clients.program import Ran
from tests.proxy.clients.proofs import LARGE
from tests.proxy.clients.test_git import BASIC, GIT, Forge, forge_with
from tests.proxy.lab.git import USER
from tests.proxy.lab.proxy_stack import NAME

pytestmark = pytest.mark.system("git", "git")


def rules(folder: Path, port: int) -> str:
    return f"""
version: 1
secrets:
  api: {{from: "file:{folder / "secret"}", hosts: ["{NAME}:{port}"]}}
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - id: clone
        git: {{fetch: ["**"]}}
      - id: push
        git: {{push: {{repos: [ours], refs: ["refs/heads/agent/**"], options: ["ci.*"]}}}}
      - id: release
        git: {{push: {{repos: [ours], refs: ["refs/heads/wip/*"], update: any, delete: true}}}}
      - id: tags
        git: {{push: {{repos: [ours], refs: ["refs/tags/v*"]}}}}
    inject:
      - basic: {{user: {USER}, secret: api}}
"""


@pytest.fixture
async def forge(tmp_path: Path) -> AsyncIterator[Forge]:
    async with forge_with(tmp_path, rules) as made:
        await made.seed("ours")
        await made.done("clone", "--quiet", made.url("ours"), "copy")
        made.scene.stack.exchanges()
        made.scene.upstream.requests.clear()
        yield made


async def push(forge: Forge, *words: str) -> Ran:
    return await forge.git("push", *words, folder="copy")


def asked(forge: Forge) -> list[str]:
    """The requests that arrived upstream."""
    return [
        f"{request.method} {request.path.rpartition('/')[2]}" for request in forge.scene.upstream.requests
    ]


def last_line(forge: Forge) -> dict[str, Any]:
    """The last exchange in the log."""
    return forge.scene.stack.exchanges()[-1]


async def refs(forge: Forge, repository: str = "ours") -> str:
    return (await forge.done("for-each-ref", folder=f"served/{repository}.git")).text


async def test_a_push_to_main_fails_in_the_terminal_with_its_reason(forge: Forge) -> None:
    """Vector 2."""
    before, commit = await refs(forge), await forge.commit("copy", "NEWS", b"news\n")
    ran = await push(forge, "origin", "main")
    assert ran.status == 1
    assert "! [remote rejected] main -> main (no rule allows a push to this ref)" in ran.err
    assert "remote: Egress: No rule allows a push to this ref." in ran.err
    assert "up-to-date" not in ran.err
    assert await refs(forge) == before
    assert asked(forge) == ["GET refs"]
    line = last_line(forge)
    assert (line["verdict"], line["code"], line["injected"]) == ("deny", "git.ref", [])
    old = before.split()[0]
    assert line["facts"]["git_repository"] == "ours"
    assert line["facts"]["git_ref_1"] == f"update refs/heads/main {old} {commit} forward"


async def test_a_new_branch_of_the_agent_arrives_byte_for_byte(forge: Forge) -> None:
    """Vector 1, and the same push past the proxy for comparison."""
    commit = await forge.commit("copy", "NEWS", b"news\n")
    await forge.done("push", "origin", "HEAD:refs/heads/agent/x", folder="copy")
    assert f"{commit} commit\trefs/heads/agent/x" in await refs(forge)
    assert asked(forge) == ["GET refs", "POST git-receive-pack"]
    through = forge.scene.upstream.requests[-1]
    assert through.headers("authorization") == [BASIC]
    assert last_line(forge)["facts"]["git_ref_1"] == f"create refs/heads/agent/x {'0' * 40} {commit}"
    # The clone knows the branch now, so what is compared is the same push to a server that does not.
    await forge.done("update-ref", "-d", "refs/heads/agent/x", folder="served/ours.git")
    await forge.done("update-ref", "-d", "refs/remotes/origin/agent/x", folder="copy")
    await forge.done(
        *("-c", f"http.curloptResolve={NAME}:{forge.scene.port}:127.0.0.1", "-c", "http.proxy="),
        *("-c", "http.sslVerify=false"),
        *("-c", f"http.extraHeader=Authorization: {BASIC}", "push", "origin", "HEAD:refs/heads/agent/x"),
        folder="copy",
    )
    direct = forge.scene.upstream.requests[-1]
    assert direct is not through
    assert (through.size, through.digest) == (direct.size, direct.digest)


async def test_a_forced_push_fails_and_a_fast_forward_arrives(forge: Forge) -> None:
    """Vectors 4 and 5."""
    await forge.commit("copy", "ONE", b"1")
    await forge.done("push", "--quiet", "origin", "HEAD:refs/heads/agent/x", folder="copy")
    two = await forge.commit("copy", "TWO", b"2")
    await forge.done("push", "--quiet", "origin", "HEAD:refs/heads/agent/x", folder="copy")
    assert f"{two} commit\trefs/heads/agent/x" in await refs(forge)
    assert str(last_line(forge)["facts"]["git_ref_1"]).endswith(" forward")
    before = await refs(forge)
    for target in ("HEAD~1", "HEAD~2"):
        ran = await push(forge, "--force", "origin", f"{target}:refs/heads/agent/x")
        assert ran.status == 1
        assert (
            f"! [remote rejected] {target} -> agent/x (cannot prove that this is a fast-forward)" in ran.err
        )
    await forge.done("commit", "--quiet", "--amend", "--message", "rewritten", folder="copy")
    ran = await push(forge, "--force", "origin", "HEAD:refs/heads/agent/x")
    assert "[remote rejected] HEAD -> agent/x (cannot prove" in ran.err
    assert last_line(forge)["code"] == "git.forward"
    assert await refs(forge) == before


async def test_a_rule_may_allow_forced_pushes_and_deletes(forge: Forge) -> None:
    """Vectors 5 and 7."""
    await forge.commit("copy", "ONE", b"1")
    await forge.done("push", "--quiet", "origin", "HEAD:refs/heads/wip/x", folder="copy")
    await forge.done("push", "--quiet", "--force", "origin", "HEAD~1:refs/heads/wip/x", folder="copy")
    await forge.done("push", "--quiet", "origin", ":refs/heads/wip/x", folder="copy")
    assert "wip/x" not in await refs(forge)
    await forge.done("push", "--quiet", "origin", "HEAD:refs/heads/agent/x", folder="copy")
    ran = await push(forge, "origin", ":refs/heads/agent/x")
    assert "! [remote rejected] agent/x (no rule allows deleting this ref)" in ran.err


async def test_a_merge_arrives(forge: Forge) -> None:
    """Vector 6: the old commit is the second parent of the new one."""
    await forge.done("checkout", "--quiet", "-b", "side", folder="copy")
    await forge.commit("copy", "SIDE", b"s")
    await forge.done("push", "--quiet", "origin", "HEAD:refs/heads/agent/x", folder="copy")
    await forge.done("checkout", "--quiet", "main", folder="copy")
    await forge.commit("copy", "MAIN", b"m")
    await forge.done("merge", "--quiet", "--no-ff", "--message", "merged", "side", folder="copy")
    await forge.done("push", "--quiet", "origin", "HEAD:refs/heads/agent/x", folder="copy")


@pytest.mark.parametrize("atomic", [(), ("--atomic",)])
async def test_one_refused_ref_refuses_them_all(forge: Forge, atomic: tuple[str, ...]) -> None:
    """Vector 3."""
    await forge.commit("copy", "NEWS", b"news\n")
    before = await refs(forge)
    ran = await push(forge, *atomic, "origin", "HEAD:refs/heads/agent/x", "main")
    assert ran.status == 1
    assert "HEAD -> agent/x (not sent: another ref was refused)" in ran.err
    assert "main -> main (no rule allows a push to this ref)" in ran.err
    assert await refs(forge) == before
    assert last_line(forge)["facts"]["git_refs"] == 2


async def test_tags_are_created_where_a_rule_says_so_and_never_moved(forge: Forge) -> None:
    await forge.done("tag", "--annotate", "-m", "one", "v1", folder="copy")
    await forge.done("push", "--quiet", "origin", "v1", folder="copy")
    assert "refs/tags/v1" in await refs(forge)
    await forge.commit("copy", "NEWS", b"news\n")
    await forge.done("tag", "--force", "v1", folder="copy")
    ran = await push(forge, "--force", "origin", "v1")
    assert "! [remote rejected] v1 -> v1 (no rule allows moving a tag)" in ran.err
    await forge.done("tag", "other", folder="copy")
    assert "no rule allows a push to this ref" in (await push(forge, "origin", "other")).err


async def test_push_options_pass_where_they_are_listed(forge: Forge) -> None:
    """Vector 14."""
    await forge.done("config", "receive.advertisePushOptions", "true", folder="served/ours.git")
    await forge.commit("copy", "NEWS", b"news\n")
    await forge.done("push", "--quiet", "-o", "ci.skip", "origin", "HEAD:refs/heads/agent/x", folder="copy")
    assert last_line(forge)["facts"]["git_options"] == "ci.skip"
    ran = await push(forge, "-o", "merge_request.create", "origin", "HEAD:refs/heads/agent/y")
    assert "! [remote rejected] HEAD -> agent/y (no rule allows this push option)" in ran.err


@pytest.mark.system("ssh-keygen", "openssh-client")
async def test_a_signed_push_is_asked_to_come_unsigned(forge: Forge) -> None:
    """Vector 12."""
    await forge.done("config", "receive.certNonceSeed", "seed", folder="served/ours.git")
    ran = await forge.stage.run(
        GIT, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(forge.home / "key")
    )
    assert ran.status == 0
    await forge.commit("copy", "NEWS", b"news\n")
    signing = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={forge.home / 'key'}")
    ran = await forge.git(
        *signing, "push", "--signed=true", "origin", "HEAD:refs/heads/agent/x", folder="copy"
    )
    assert ran.status == 1
    assert "push without --signed" in ran.err
    assert asked(forge) == ["GET refs"]


async def test_another_repository_is_refused_before_anything_is_sent(forge: Forge) -> None:
    """Vector 18."""
    ran = await push(forge, forge.url("theirs"), "HEAD:refs/heads/agent/x")
    assert ran.status == 128
    assert "fatal: remote error: Egress: No rule allows this with this repository." in ran.err
    assert asked(forge) == []
    assert last_line(forge)["facts"]["git_repository"] == "theirs"


@pytest.mark.parametrize("version", ["0", "1", "2"])
async def test_every_version_of_the_protocol_fetches_and_pushes(forge: Forge, version: str) -> None:
    protocol = ("-c", f"protocol.version={version}")
    await forge.done(*protocol, "clone", "--quiet", forge.url("ours"), "again")
    await forge.commit("again", "NEWS", b"news\n")
    await forge.done(*protocol, "push", "--quiet", "origin", "HEAD:refs/heads/agent/x", folder="again")
    ran = await forge.git(*protocol, "push", "origin", "HEAD:refs/heads/main", folder="again")
    assert "! [remote rejected] HEAD -> main (no rule" in ran.err


async def test_a_shallow_clone_pushes(forge: Forge) -> None:
    """Vector 13."""
    await forge.done("clone", "--quiet", "--depth=1", forge.url("ours"), "shallow")
    await forge.commit("shallow", "NEWS", b"news\n")
    await forge.done("push", "--quiet", "origin", "HEAD:refs/heads/agent/x", folder="shallow")
    await forge.commit("shallow", "MORE", b"more\n")
    await forge.done("push", "--quiet", "origin", "HEAD:refs/heads/agent/x", folder="shallow")
    assert str(last_line(forge)["facts"]["git_ref_1"]).endswith(" forward")


async def test_a_repository_with_sha256(forge: Forge) -> None:
    """Vector 20."""
    for folder, *kind in (("served/ours.git", "--bare"), ("sha256",)):
        path = forge.home / folder
        if path.exists():
            path.rename(forge.home / "sha1.git")
        await forge.done("init", "--quiet", "--object-format=sha256", *kind, folder)
    await forge.done("config", "http.receivepack", "true", folder="served/ours.git")
    for name in ("ONE", "TWO"):
        await forge.commit("sha256", name, b"1")
        await forge.done("push", "--quiet", forge.url("ours"), "HEAD:refs/heads/agent/x", folder="sha256")
    assert str(last_line(forge)["facts"]["git_ref_1"]).endswith(" forward")
    ran = await forge.git("push", "--force", forge.url("ours"), "HEAD~1:refs/heads/agent/x", folder="sha256")
    assert "cannot prove that this is a fast-forward" in ran.err


async def test_a_large_push_is_refused_and_allowed_alike(forge: Forge) -> None:
    """Vectors 8 and 19: a probe goes ahead, the pack of a refused push is read into nothing."""
    content = hashlib.shake_128(b"a pack that does not compress").digest(LARGE)
    await forge.done("config", "core.bigFileThreshold", "1m", folder="copy")
    await forge.done("config", "core.compression", "0", folder="copy")
    commit = await forge.commit("copy", "large", content)
    ran = await push(forge, "origin", "main")
    assert ran.status == 1
    assert "! [remote rejected] main -> main (no rule allows a push to this ref)" in ran.err
    assert "Broken pipe" not in ran.err
    assert asked(forge) == ["GET refs", "POST git-receive-pack"], "the probe alone has passed"
    assert forge.scene.upstream.requests[-1].size == 4
    await forge.done("push", "--quiet", "origin", "HEAD:refs/heads/agent/x", folder="copy")
    assert f"{commit} commit\trefs/heads/agent/x" in await refs(forge)
