"""git clones, fetches and pushes through the proxy without a password of its own.

Behind the proxy stands `git http-backend`. The rules let one repository be written and another one be
read; git shows its user our words for what they do not allow.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.proxy.clients import denied_host
from tests.proxy.clients.client import Client, printed
from tests.proxy.clients.password_proxy import PASSWORD, guarded
from tests.proxy.clients.program import Ran, run
from tests.proxy.clients.proofs import LARGE
from tests.proxy.clients.scene import SECRET, Scene, certs, write_secret
from tests.proxy.clients.stage import Stage, before, lighten
from tests.proxy.lab.git import USER, GitUpstream, git_environment
from tests.proxy.lab.proxy_stack import NAME, ProxyStack

pytestmark = pytest.mark.system("git", "git")


GIT = Client(
    name="git",
    family="Command line",
    version=printed("git", "--version"),
    variables={"https_proxy": "{proxy}", "GIT_SSL_CAINFO": "{bundle}"},
    around=git_environment(Path("{home}")),
    denied="remote: For the operator: egress log suggest ID",
)
LFS = Client(
    name="git-lfs",
    family="Command line",
    version=printed("git-lfs", "--version"),
    variables=GIT.variables,
    around=GIT.around,
    cannot={
        "storage": "be used where the rules allow a repository and not its `/info/lfs/objects/batch`:"
        " the answer would hold credentials for elsewhere",
    },
)

BASIC = "Basic " + base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
FETCH = [("GET", "/{}.git/info/refs", 200), ("POST", "/{}.git/git-upload-pack", 200)]
PUSH = [("GET", "/{}.git/info/refs", 200), ("POST", "/{}.git/git-receive-pack", 200)]


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
      - {{id: refs, methods: [GET], paths: ["/*.git/info/refs"], query: {{service: git-upload-pack}}}}
      - {{id: fetch, methods: [POST], paths: ["/*.git/git-upload-pack"]}}
      - {{id: push-refs, methods: [GET], paths: [/ours.git/info/refs], query: {{service: git-receive-pack}}}}
      - {{id: push, methods: [POST], paths: [/ours.git/git-receive-pack]}}
    inject:
      - basic: {{user: {USER}, secret: api}}
"""


@dataclass(frozen=True, slots=True)
class Forge:
    """Two repositories behind the proxy, and a git that knows the way."""

    stage: Stage[GitUpstream]

    @property
    def scene(self) -> Scene[GitUpstream]:
        return self.stage.scene

    @property
    def home(self) -> Path:
        return self.stage.home

    async def git(self, *arguments: str, folder: str = ".") -> Ran:
        """Run git with nothing but the address of the proxy and the certificate to trust."""
        return await self.stage.run(GIT, "git", "-C", folder, *arguments)

    async def done(self, *arguments: str, folder: str = ".") -> Ran:
        """Run git and expect it to succeed."""
        ran = await self.git(*arguments, folder=folder)
        assert ran.status == 0, ran.err
        return ran

    async def commit(self, folder: str, name: str, content: bytes) -> str:
        """Commit one file; returns the commit."""
        (self.home / folder / name).write_bytes(content)
        await self.done("add", name, folder=folder)
        await self.done("commit", "--quiet", "--message", name, folder=folder)
        return (await self.done("rev-parse", "HEAD", folder=folder)).text.strip()

    async def seed(self, repository: str, content: bytes = b"hello\n") -> str:
        """Put a commit into a repository, past the proxy."""
        await self.done("init", "--quiet", "--initial-branch=main", f"seed-{repository}")
        found = await self.commit(f"seed-{repository}", "README", content)
        there = str(self.home / "served" / f"{repository}.git")
        await self.done("push", "--quiet", there, "main", folder=f"seed-{repository}")
        return found

    def url(self, repository: str) -> str:
        return self.scene.url(f"/{repository}.git")

    async def head(self, repository: str) -> str:
        """The commit that the served repository has."""
        ran = await self.git("rev-parse", "main", folder=f"served/{repository}.git")
        return ran.text.strip() if ran.status == 0 else ""

    async def commits(self, folder: str) -> int:
        """How many commits a copy has."""
        return int((await self.done("rev-list", "--count", "HEAD", folder=folder)).text)

    def carried(self, repository: str, *steps: tuple[str, str, int]) -> None:
        """These requests arrived with the one credential, and the log says so."""
        self.scene.carried(*[(method, path.format(repository), status) for method, path, status in steps])
        requests = self.scene.upstream.requests
        assert [request.path for request in requests] == [path.format(repository) for _, path, _ in steps]
        assert all(request.headers("authorization") == [BASIC] for request in requests)


@asynccontextmanager
async def forge_with(tmp_path: Path, made: Callable[[Path, int], str]) -> AsyncIterator[Forge]:
    """A forge behind a proxy with these rules."""
    write_secret(tmp_path)
    served = tmp_path / "served"
    served.mkdir()
    async with GitUpstream(certs.good(NAME), served, SECRET) as upstream:
        upstream.create("ours")
        upstream.create("theirs")
        async with ProxyStack(tmp_path, certs, made(tmp_path, upstream.port)) as stack:
            scene = Scene(stack, upstream, upstream.port, stack.write_ca())
            yield Forge(before(scene, tmp_path))
    lighten(tmp_path)


@pytest.fixture
async def forge(tmp_path: Path) -> AsyncIterator[Forge]:
    async with forge_with(tmp_path, rules) as made:
        yield made


@GIT.proves("clone", "injected")
async def test_a_clone_is_given_the_credential(forge: Forge) -> None:
    commit = await forge.seed("theirs")
    await forge.done("clone", "--quiet", forge.url("theirs"), "copy")
    assert (await forge.done("rev-parse", "HEAD", folder="copy")).text.strip() == commit
    # Protocol 2 asks for the refs with a request of their own.
    forge.carried("theirs", *FETCH, FETCH[1])


@GIT.proves("clone")
async def test_a_shallow_clone_is_deepened(forge: Forge) -> None:
    await forge.seed("theirs")
    for name in ("ONE", "TWO"):
        await forge.commit("seed-theirs", name, name.encode())
    await forge.done("push", "--quiet", str(forge.home / "served/theirs.git"), "main", folder="seed-theirs")
    await forge.done("clone", "--quiet", "--depth=1", forge.url("theirs"), "copy")
    assert await forge.commits("copy") == 1
    await forge.done("fetch", "--quiet", "--unshallow", folder="copy")
    assert await forge.commits("copy") == 3
    forge.carried("theirs", *FETCH, FETCH[1], *FETCH, FETCH[1])


@GIT.proves("fetch")
async def test_a_fetch_brings_what_is_new(forge: Forge) -> None:
    await forge.seed("theirs")
    await forge.done("clone", "--quiet", forge.url("theirs"), "copy")
    await forge.commit("seed-theirs", "NEWS", b"news\n")
    await forge.done("push", "--quiet", str(forge.home / "served/theirs.git"), "main", folder="seed-theirs")
    await forge.done("pull", "--quiet", folder="copy")
    assert (forge.home / "copy/NEWS").read_bytes() == b"news\n"
    forge.carried("theirs", *FETCH, FETCH[1], *FETCH, FETCH[1])


async def test_a_password_of_its_own_is_replaced(forge: Forge) -> None:
    await forge.seed("theirs")
    url = forge.url("theirs").replace("https://", "https://someone:stand-in@")
    await forge.done("ls-remote", url)
    forge.carried("theirs", *FETCH)


@GIT.proves("push")
async def test_a_push_arrives(forge: Forge) -> None:
    await forge.seed("ours")
    await forge.done("clone", "--quiet", forge.url("ours"), "copy")
    commit = await forge.commit("copy", "NEWS", b"news\n")
    await forge.done("push", "--quiet", "origin", "main", folder="copy")
    assert await forge.head("ours") == commit
    forge.carried("ours", *FETCH, FETCH[1], *PUSH)


@GIT.proves("push", "clone", "large", "upload")
async def test_a_large_push_and_its_clone_are_whole(forge: Forge) -> None:
    """Above `http.postBuffer` git sends the pack in chunks, after a probe of four bytes."""
    content = hashlib.shake_128(b"a pack that does not compress").digest(LARGE)
    await forge.done("init", "--quiet", "--initial-branch=main", "copy")
    # It is about the way, not about how well git packs.
    await forge.done("config", "core.bigFileThreshold", "1m", folder="copy")
    await forge.done("config", "core.compression", "0", folder="copy")
    commit = await forge.commit("copy", "large", content)
    await forge.done("push", "--quiet", forge.url("ours"), "main", folder="copy")
    assert await forge.head("ours") == commit
    forge.carried("ours", *PUSH, PUSH[1])
    assert forge.scene.upstream.requests[-1].header("transfer-encoding") == "chunked"
    await forge.done("clone", "--quiet", forge.url("ours"), "again")
    assert (forge.home / "again/large").read_bytes() == content
    forge.carried("ours", *PUSH, PUSH[1], *FETCH, FETCH[1])


@GIT.proves("refusal", "push")
async def test_a_push_to_another_repository_is_denied_in_our_words(forge: Forge) -> None:
    commit = await forge.seed("theirs")
    await forge.done("clone", "--quiet", forge.url("theirs"), "copy")
    await forge.commit("copy", "NEWS", b"news\n")
    ran = await forge.git("push", "origin", "main", folder="copy")
    assert ran.status == 128
    assert "remote: Egress: No rule allows this request. (rule.none)" in ran.err
    assert "remote: Ask the operator of this sandbox to allow it in the rules." in ran.err
    assert "error: 403" in ran.err
    assert await forge.head("theirs") == commit
    assert len(forge.scene.upstream.requests) == 3
    denied = forge.scene.stack.exchanges()[-1]
    assert (denied["path"], denied["code"], denied["status"]) == ("/theirs.git/info/refs", "rule.none", 403)
    assert denied["injected"] == []


@pytest.mark.system("curl", "curl")
async def test_a_pack_that_is_sent_without_asking_is_denied_too(forge: Forge) -> None:
    """The rule for the pack itself, not only the one for the refs that git asks for first."""
    data = ("--data-binary", "0000", "--header", "content-type: application/x-git-receive-pack-request")
    proxy = ("--proxy", forge.scene.stack.url, "--cacert", str(forge.scene.ca))
    url = f"{forge.url('theirs')}/git-receive-pack"
    ran = await run(forge.home, "curl", "--disable", "--silent", *proxy, *data, url)
    assert '"code": "rule.none"' in ran.text
    assert not forge.scene.upstream.requests
    forge.scene.denied("rule.none", ("POST", "/theirs.git/git-receive-pack", 403))


@GIT.proves("password")
async def test_a_password_of_the_proxy_is_given(forge: Forge) -> None:
    await forge.seed("theirs")
    for password, is_right in (("another-password", False), (PASSWORD, True)):
        client = await guarded(forge.stage, GIT, password)
        ran = await forge.stage.run(client, "git", "ls-remote", forge.url("theirs"))
        assert (ran.status == 0) is is_right, ran.err
    forge.carried("theirs", *FETCH)


@GIT.proves("denied")
async def test_a_host_that_no_rule_names_is_refused_in_our_words(forge: Forge) -> None:
    ran = await forge.git("ls-remote", f"https://{denied_host.NOWHERE}:{forge.scene.port}/ours.git")
    assert ran.status == 128
    assert "remote: Egress: No rule names this host. (host.unknown)" in ran.err
    assert not forge.scene.upstream.links
    denied_host.is_shown(forge.scene.stack, GIT.denied, ran.err)


BATCH = "/ours.git/info/lfs/objects/batch"


@LFS.proves("storage", "refusal")
@pytest.mark.system("git-lfs", "git-lfs")
async def test_large_files_stored_elsewhere_are_denied_where_no_rule_allows_the_batch(forge: Forge) -> None:
    """What a batch brings back are addresses and credentials for them: it wants a rule of its own."""
    commit = await forge.seed("ours")
    await forge.done("clone", "--quiet", forge.url("ours"), "copy")
    await forge.done("lfs", "install", "--local", folder="copy")
    await forge.done("lfs", "track", "*.bin", folder="copy")
    await forge.commit("copy", "large.bin", b"x" * 1000)
    ran = await forge.git("push", "origin", "main", folder="copy")
    assert ran.status != 0
    assert "Egress: No rule allows this request. " in ran.err
    assert "(rule.none, egress log suggest " in ran.err
    assert await forge.head("ours") == commit
    assert not [request for request in forge.scene.upstream.requests if "lfs" in request.path]
    denied = forge.scene.stack.exchanges()[-1]
    assert (denied["path"], denied["code"], denied["injected"]) == (BATCH, "rule.none", [])


@pytest.mark.system("curl", "curl")
async def test_a_batch_that_is_asked_for_by_hand_is_denied_in_our_words(forge: Forge) -> None:
    kind = "application/vnd.git-lfs+json"
    asked = {"operation": "download", "transfers": ["basic"], "objects": [{"oid": "0" * 64, "size": 1}]}
    data = (
        "--data-binary",
        json.dumps(asked),
        "--header",
        f"accept: {kind}",
        "--header",
        f"content-type: {kind}",
    )
    proxy = ("--proxy", forge.scene.stack.url, "--cacert", str(forge.scene.ca))
    ran = await run(forge.home, "curl", "--disable", "--silent", *proxy, *data, forge.scene.url(BATCH))
    assert json.loads(ran.out)["error"]["code"] == "rule.none"
    assert not forge.scene.upstream.requests
    forge.scene.denied("rule.none", ("POST", BATCH, 403))
