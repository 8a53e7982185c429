"""pip and uv install from an index that wants a credential which they do not have."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients import cache, denied_host
from tests.proxy.clients.client import Client, printed, proving
from tests.proxy.clients.password_proxy import guarded
from tests.proxy.clients.program import Ran
from tests.proxy.clients.proofs import LARGE
from tests.proxy.clients.scene import WANTED, certs
from tests.proxy.clients.stage import Stage, staged
from tests.proxy.clients.standins.python_index import PACKAGE, PAGE_PATH, WHEEL, WHEEL_PATH, serve_index
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.lab.raw_upstream import RawUpstream

BIN = cache.PYTHON.folder / "venv/bin"
FAMILY = "Python"
CONTENT = b"installed through the proxy\n"

PIP = Client(
    name="pip",
    family=FAMILY,
    version=printed(BIN / "python", "-m", "pip", "--version"),
    variables={"HTTPS_PROXY": "{proxy}", "PIP_CERT": "{bundle}", "PIP_INDEX_URL": "https://{host}/simple/"},
    around={
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_RETRIES": "0",
    },
    denied='got Content-Type: text/plain; denied="Egress host.unknown (egress log suggest ID)"',
)
UV = Client(
    name="uv",
    family=FAMILY,
    version=printed(BIN / "uv", "--version"),
    variables={
        "HTTPS_PROXY": "{proxy}",
        "SSL_CERT_FILE": "{bundle}",
        "UV_DEFAULT_INDEX": "https://{host}/simple/",
    },
    around={"UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never", "UV_HTTP_RETRIES": "0"},
    cannot={
        "silent": "say why: of what is denied it shows `403 Forbidden`. The audit log tells",
        "compiled-in": "trust what the system trusts, unless it is told to: its own roots are compiled in",
    },
)
COMMANDS = {
    PIP.name: (BIN / "python", "-m", "pip", "install"),
    UV.name: (BIN / "uv", "pip", "install", "--python", sys.executable),
}


@pytest.fixture(autouse=True)
def packages(request: pytest.FixtureRequest) -> None:
    cache.PYTHON.require(request)


@pytest.fixture
async def locked(tmp_path: Path) -> AsyncIterator[Stage[RawUpstream]]:
    """An index that shows nothing to those who have no credential."""
    async with staged(tmp_path, RawUpstream(certs.good(NAME), WANTED)) as stage:
        yield stage


async def install(stage: Stage[RawUpstream], client: Client) -> Ran:
    return await stage.run(client, *COMMANDS[client.name], "--target", stage.home / "there", PACKAGE)


@proving("install, injected", PIP, UV)
async def test_a_package_is_installed_from_an_index_that_wants_a_credential(
    locked: Stage[RawUpstream], client: Client
) -> None:
    serve_index(locked.scene.upstream, CONTENT)
    ran = await install(locked, client)
    assert ran.status == 0, ran.err
    assert (locked.home / "there" / PACKAGE / "content").read_bytes() == CONTENT
    arrived(locked)


@proving("large", PIP, UV)
async def test_a_large_package_is_installed_whole(locked: Stage[RawUpstream], client: Client) -> None:
    content = hashlib.shake_128(b"a wheel").digest(LARGE)
    serve_index(locked.scene.upstream, content)
    ran = await install(locked, client)
    assert ran.status == 0, ran.err
    found = (locked.home / "there" / PACKAGE / "content").read_bytes()
    assert hashlib.sha256(found).digest() == hashlib.sha256(content).digest()
    arrived(locked)


@PIP.proves("refusal")
async def test_pip_shows_why_it_is_not_given_a_file(locked: Stage[RawUpstream]) -> None:
    serve_index(locked.scene.upstream, CONTENT, f"/private/{WHEEL}")
    ran = await install(locked, PIP)
    assert ran.status != 0
    assert "403 Client Error: Egress rule.denied" in ran.err, ran


async def denied_page(locked: Stage[RawUpstream], client: Client, index: str) -> Ran:
    """Ask for a package whose page is denied."""
    closed = replace(client, variables=client.variables | {index: "https://{host}/private/"})
    ran = await install(locked, closed)
    assert ran.status != 0
    assert not locked.scene.upstream.links
    locked.scene.denied("rule.denied", ("GET", f"/private/{PACKAGE}/", 403))
    return ran


@PIP.proves("refusal")
async def test_pip_shows_why_it_is_not_given_the_page_of_a_package(locked: Stage[RawUpstream]) -> None:
    """As the type of an answer that it did not expect: of an error it would say nothing."""
    ran = await denied_page(locked, PIP, "PIP_INDEX_URL")
    assert 'Content-Type: text/plain; denied="Egress rule.denied (egress log suggest ' in ran.err, ran


@UV.proves("silent")
async def test_a_page_that_is_denied_looks_to_uv_like_a_package_that_is_not_there(
    locked: Stage[RawUpstream],
) -> None:
    ran = await denied_page(locked, UV, "UV_DEFAULT_INDEX")
    assert "rule.denied" not in ran.text + ran.err


@proving("password", PIP, UV)
async def test_a_password_is_given(locked: Stage[RawUpstream], client: Client) -> None:
    serve_index(locked.scene.upstream, CONTENT)
    ran = await install(locked, await guarded(locked, client, "another-password"))
    assert ran.status != 0
    assert not locked.scene.upstream.links
    ran = await install(locked, await guarded(locked, client))
    assert ran.status == 0, ran.err
    arrived(locked)


@PIP.proves("denied")
async def test_pip_shows_why_a_host_is_denied(locked: Stage[RawUpstream]) -> None:
    ran = await install(locked, denied_host.elsewhere(PIP, "PIP_INDEX_URL"))
    denied_host.shown(locked, PIP, ran)


@UV.proves("silent")
async def test_uv_keeps_to_itself_why_a_host_is_denied(locked: Stage[RawUpstream]) -> None:
    ran = await install(locked, denied_host.elsewhere(UV, "UV_DEFAULT_INDEX"))
    assert ran.status != 0
    assert "403 Forbidden" in ran.err, ran
    assert "host.unknown" not in ran.text + ran.err, ran


@UV.proves("compiled-in")
async def test_uv_trusts_roots_of_its_own_unless_it_is_told(locked: Stage[RawUpstream]) -> None:
    serve_index(locked.scene.upstream, CONTENT)
    told = {name: text for name, text in UV.variables.items() if name != "SSL_CERT_FILE"}
    ran = await install(locked, replace(UV, variables=told))
    assert ran.status != 0
    assert "certif" in ran.err, ran
    assert not locked.scene.upstream.links


def arrived(stage: Stage[RawUpstream]) -> None:
    """Page and wheel were fetched, as often as the client likes, and always with the one credential."""
    requests = stage.scene.upstream.requests
    assert {request.path for request in requests} == {PAGE_PATH, WHEEL_PATH}
    assert {tuple(request.headers("authorization")) for request in requests} == {(WANTED,)}
    assert {line["code"] for line in stage.scene.stack.exchanges()} == {"rule.allowed"}
