"""npm installs from a registry that wants a credential which it does not have."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients import denied_host
from tests.proxy.clients.client import Client, printed
from tests.proxy.clients.password_proxy import guarded
from tests.proxy.clients.program import Ran
from tests.proxy.clients.proofs import LARGE
from tests.proxy.clients.scene import WANTED, certs, unlocked
from tests.proxy.clients.stage import Stage, staged
from tests.proxy.clients.standins.npm_registry import PACKAGE, TARBALL_PATH, serve_registry
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = pytest.mark.system("npm", "npm")

CONTENT = b"installed through the proxy\n"

NPM = Client(
    name="npm",
    family="Node",
    version=printed("npm", "--version"),
    variables={
        "HTTPS_PROXY": "{proxy}",
        "NODE_EXTRA_CA_CERTS": "{certificate}",
        "npm_config_registry": "https://{host}/",
    },
    around={
        # What this machine configures is not what is tried here.
        "npm_config_globalconfig": "{home}/none",
        "npm_config_audit": "false",
        "npm_config_fund": "false",
        "npm_config_update_notifier": "false",
        "npm_config_fetch_retries": "0",
    },
    cannot={
        "cafile": "look at `NODE_EXTRA_CA_CERTS` where `cafile` is configured: there, set"
        " `npm_config_cafile` to the bundle"
    },
    denied="403 Egress host.unknown (egress log suggest ID)",
)


@pytest.fixture
async def locked(tmp_path: Path) -> AsyncIterator[Stage[RawUpstream]]:
    """A registry that shows nothing to those who have no credential."""
    async with staged(tmp_path, RawUpstream(certs.good(NAME), WANTED)) as stage:
        yield stage


async def install(stage: Stage[RawUpstream], client: Client = NPM) -> Ran:
    return await stage.run(client, "npm", "install", PACKAGE)


def content(stage: Stage[RawUpstream]) -> bytes:
    """What of the package lies where it is looked for."""
    return (stage.home / "node_modules" / PACKAGE / "content").read_bytes()


@NPM.proves("install", "injected")
async def test_a_package_is_installed_from_a_registry_that_wants_a_credential(
    locked: Stage[RawUpstream],
) -> None:
    serve_registry(locked.scene.upstream, locked.scene.host, CONTENT)
    ran = await install(locked)
    assert ran.status == 0, ran.err
    assert content(locked) == CONTENT
    unlocked(locked.scene.upstream, f"/{PACKAGE}", TARBALL_PATH)
    locked.scene.carried(("GET", f"/{PACKAGE}", 200), ("GET", TARBALL_PATH, 200))


@NPM.proves("large")
async def test_a_large_package_is_installed_whole(locked: Stage[RawUpstream]) -> None:
    much = hashlib.shake_128(b"a tarball").digest(LARGE)
    serve_registry(locked.scene.upstream, locked.scene.host, much)
    ran = await install(locked)
    assert ran.status == 0, ran.err
    assert hashlib.sha256(content(locked)).digest() == hashlib.sha256(much).digest()
    unlocked(locked.scene.upstream, f"/{PACKAGE}", TARBALL_PATH)


@NPM.proves("refusal")
@pytest.mark.parametrize("what", ["document", "tarball"])
async def test_a_refusal_shows_why(locked: Stage[RawUpstream], what: str) -> None:
    client = NPM
    if what == "document":
        client = replace(NPM, variables=NPM.variables | {"npm_config_registry": "https://{host}/private/"})
    else:
        serve_registry(locked.scene.upstream, locked.scene.host, CONTENT, "/private/demo.tgz")
    ran = await install(locked, client)
    assert ran.status != 0
    assert "rule.denied" in ran.err, ran
    assert "/private/" not in {request.path for request in locked.scene.upstream.requests}


@NPM.proves("cafile")
async def test_a_configured_cafile_goes_before_the_variable(locked: Stage[RawUpstream]) -> None:
    serve_registry(locked.scene.upstream, locked.scene.host, CONTENT)
    certs.write_ca(locked.home / "other-roots.pem")
    configured = replace(NPM, files={".npmrc": "cafile={home}/other-roots.pem\n"})
    ran = await install(locked, configured)
    assert ran.status != 0
    assert "certif" in ran.err, ran
    assert not locked.scene.upstream.links
    told = replace(configured, variables=NPM.variables | {"npm_config_cafile": "{bundle}"})
    ran = await install(locked, told)
    assert ran.status == 0, ran.err
    assert content(locked) == CONTENT


@NPM.proves("password")
async def test_a_password_is_given(locked: Stage[RawUpstream]) -> None:
    serve_registry(locked.scene.upstream, locked.scene.host, CONTENT)
    ran = await install(locked, await guarded(locked, NPM, "another-password"))
    assert ran.status != 0
    assert not locked.scene.upstream.links
    ran = await install(locked, await guarded(locked, NPM))
    assert ran.status == 0, ran.err
    unlocked(locked.scene.upstream, f"/{PACKAGE}", TARBALL_PATH)


@NPM.proves("denied")
async def test_a_denied_host_shows_why(locked: Stage[RawUpstream]) -> None:
    ran = await install(locked, denied_host.elsewhere(NPM, "npm_config_registry"))
    denied_host.shown(locked, NPM, ran)


async def test_without_the_certificate_nothing_is_believed(locked: Stage[RawUpstream]) -> None:
    told = {name: text for name, text in NPM.variables.items() if name != "NODE_EXTRA_CA_CERTS"}
    ran = await install(locked, replace(NPM, variables=told))
    assert ran.status != 0
    assert "certif" in ran.err, ran
    assert not locked.scene.upstream.links
