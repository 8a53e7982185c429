"""pnpm installs from a registry that wants a credential which it does not have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients import cache, denied_host, password_proxy
from tests.proxy.clients.client import Client, printed
from tests.proxy.clients.program import Ran
from tests.proxy.clients.scene import WANTED, certs, unlocked
from tests.proxy.clients.stage import Stage, staged
from tests.proxy.clients.standins.home_leftovers import kept_nothing
from tests.proxy.clients.standins.incompressible import ballast, is_whole
from tests.proxy.clients.standins.npm_registry import PACKAGE, TARBALL_PATH, serve_registry
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = [pytest.mark.system("node", "nodejs"), pytest.mark.system("npm", "npm")]

CONTENT = b"installed through the proxy\n"
PROGRAM = cache.PNPM.folder / "node_modules/.bin/pnpm"

PNPM = Client(
    name="pnpm",
    family="Node",
    version=printed(PROGRAM, "--version"),
    variables={
        "HTTPS_PROXY": "{proxy}",
        "NODE_EXTRA_CA_CERTS": "{certificate}",
        "npm_config_registry": "https://{host}/",
    },
    around={
        # What this machine configures is not what is tried here.
        "npm_config_globalconfig": "{home}/none",
        "npm_config_fetch_retries": "0",
        "npm_config_update_notifier": "false",
    },
    denied="Egress host.unknown (egress log suggest ID) - 403",
)


@pytest.fixture(autouse=True)
def packages(request: pytest.FixtureRequest) -> None:
    cache.PNPM.require(request)


@pytest.fixture
async def locked(tmp_path: Path) -> AsyncIterator[Stage[RawUpstream]]:
    """A registry that shows nothing to those who have no credential."""
    async with staged(tmp_path, RawUpstream(certs.good(NAME), WANTED)) as stage:
        yield stage


async def install(stage: Stage[RawUpstream], client: Client = PNPM) -> Ran:
    return await stage.run(client, PROGRAM, "add", PACKAGE)


def content(stage: Stage[RawUpstream]) -> bytes:
    """What of the package lies where it is looked for."""
    return (stage.home / "node_modules" / PACKAGE / "content").read_bytes()


@PNPM.proves("install", "injected")
async def test_a_package_is_installed_from_a_registry_that_wants_a_credential(
    locked: Stage[RawUpstream],
) -> None:
    serve_registry(locked.scene.upstream, locked.scene.host, CONTENT)
    ran = await install(locked)
    assert ran.status == 0, ran
    assert content(locked) == CONTENT
    unlocked(locked.scene.upstream, f"/{PACKAGE}", TARBALL_PATH)
    locked.scene.carried(("GET", f"/{PACKAGE}", 200), ("GET", TARBALL_PATH, 200))
    kept_nothing(locked.home)


@PNPM.proves("large")
async def test_a_large_package_is_installed_whole(locked: Stage[RawUpstream]) -> None:
    serve_registry(locked.scene.upstream, locked.scene.host, ballast())
    ran = await install(locked)
    assert ran.status == 0, ran
    assert is_whole(content(locked))
    unlocked(locked.scene.upstream, f"/{PACKAGE}", TARBALL_PATH)


@PNPM.proves("password")
async def test_a_password_is_given(locked: Stage[RawUpstream]) -> None:
    serve_registry(locked.scene.upstream, locked.scene.host, CONTENT)
    ran = await install(locked, await password_proxy.guarded(locked, PNPM))
    assert ran.status == 0, ran
    unlocked(locked.scene.upstream, f"/{PACKAGE}", TARBALL_PATH)


@PNPM.proves("refusal")
async def test_a_refusal_shows_why(locked: Stage[RawUpstream]) -> None:
    registry = {"npm_config_registry": "https://{host}/private/"}
    ran = await install(locked, replace(PNPM, variables=PNPM.variables | registry))
    assert ran.status != 0
    assert "Egress rule.denied (egress log suggest " in ran.text, ran
    assert not locked.scene.upstream.links


@PNPM.proves("denied")
async def test_a_denied_host_shows_why(locked: Stage[RawUpstream]) -> None:
    ran = await install(locked, denied_host.elsewhere(PNPM, "npm_config_registry"))
    denied_host.shown(locked, PNPM, ran)
