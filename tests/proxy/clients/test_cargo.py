"""cargo fetches crates through the proxy from a sparse registry, a private one too."""

from __future__ import annotations

import functools
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients import denied_host, password_proxy
from tests.proxy.clients.client import Ask, Client, printed
from tests.proxy.clients.program import Ran
from tests.proxy.clients.scene import unlocked
from tests.proxy.clients.stage import Stage, over_http2
from tests.proxy.clients.standins.crate_registry import SOURCE, USER, registry
from tests.proxy.clients.standins.home_leftovers import kept_a_mask
from tests.proxy.clients.standins.incompressible import ballast, is_whole
from tests.proxy.clients.standins.static_files import shelve
from tests.proxy.lab.http2 import Http2Upstream
from tests.proxy.lab.proxy_stack import NAME, OTHER
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = pytest.mark.system("cargo", "cargo-web")

AT = "/index"
PATHS = [f"{AT}/config.json", f"{AT}/ti/ny/tiny", f"{AT}/dl/tiny/0.1.0/download"]


@functools.cache
def toolchain() -> Path:
    """Where cargo really is: in front of it may stand a rustup, which looks for its own files at home."""
    found = shutil.which("cargo")
    if found is None:
        return Path("/nowhere")
    if Path(found).resolve().name == "rustup":
        asked = subprocess.run(["rustup", "which", "cargo"], capture_output=True, text=True, check=True)
        found = asked.stdout.strip()
    return Path(found).parent


def command(ask: Ask) -> tuple[str | Path, ...]:
    registered = f'registries.lab.index="sparse+{ask.url}/"'
    cargo = ("env", f"RUSTC={toolchain() / 'rustc'}", toolchain() / "cargo")
    return *cargo, "fetch", "--config", registered, "--config", "net.retry=0"


CARGO = Client(
    name="cargo",
    family="Rust",
    version=printed("cargo", "--version"),
    command=command,
    variables={"HTTPS_PROXY": "{proxy}", "CARGO_HTTP_CAINFO": "{bundle}"},
    denied="For the operator: egress log suggest ID",
)


def lay(home: Path) -> None:
    """Put a package there that needs the crate."""
    (home / "src").mkdir()
    (home / "src/lib.rs").touch()
    (home / "Cargo.toml").write_text(USER)


async def fetch(
    stage: Stage[RawUpstream] | Stage[Http2Upstream], client: Client = CARGO, at: str = AT, host: str = NAME
) -> Ran:
    """Have cargo fetch what the package needs from the registry there."""
    lay(stage.home)
    return await stage.ask(client, "get", at, host)


def crate(stage: Stage[RawUpstream] | Stage[Http2Upstream]) -> Path:
    """Where the crate has been unpacked."""
    (found,) = stage.home.glob(".cargo/registry/src/*/tiny-0.1.0")
    return found


@CARGO.proves("plain", "install")
async def test_a_crate_is_fetched(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, registry(AT, stage.url("", OTHER)))
    ran = await fetch(stage, host=OTHER)
    assert ran.status == 0, ran.err
    assert (crate(stage) / "src/lib.rs").read_bytes() == SOURCE
    assert [request.path for request in stage.scene.upstream.requests] == PATHS
    assert not [line for line in stage.scene.stack.exchanges() if line["injected"]]


@CARGO.proves("injected")
async def test_a_private_registry_is_given_the_credential(stage: Stage[RawUpstream]) -> None:
    """Cargo does not ask such a registry for anything before it has a token: any will do."""
    shelve(stage.scene.upstream, registry(AT, stage.url(""), locked=True))
    token = {"TOKEN": "Bearer stand-in", "CREDENTIAL_PROVIDER": "cargo:token"}
    user = replace(CARGO, around={f"CARGO_REGISTRIES_LAB_{name}": value for name, value in token.items()})
    ran = await fetch(stage, user)
    assert ran.status == 0, ran.err
    assert (crate(stage) / "src/lib.rs").read_bytes() == SOURCE
    unlocked(stage.scene.upstream, *PATHS)
    kept_a_mask(stage.home)
    stage.scene.carried(*[("GET", path, 200) for path in PATHS])


@CARGO.proves("refusal")
async def test_a_refusal_shows_why(stage: Stage[RawUpstream]) -> None:
    ran = await fetch(stage, at="/private")
    assert ran.status != 0
    assert "(rule.denied)" in ran.err
    assert not stage.scene.upstream.links
    stage.scene.denied("rule.denied", ("GET", "/private/config.json", 403))


@CARGO.proves("denied")
async def test_a_denied_host_shows_why(stage: Stage[RawUpstream]) -> None:
    lay(stage.home)
    await denied_host.host(stage, CARGO)


@CARGO.proves("password")
async def test_a_password_is_given(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, registry(AT, stage.url("")))
    ran = await fetch(stage, await password_proxy.guarded(stage, CARGO))
    assert ran.status == 0, ran.err
    unlocked(stage.scene.upstream, *PATHS)


@CARGO.proves("large")
async def test_a_large_crate_arrives_whole(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, registry(AT, stage.url(""), ballast()))
    ran = await fetch(stage)
    assert ran.status == 0, ran.err
    assert is_whole((crate(stage) / "ballast").read_bytes())
    unlocked(stage.scene.upstream, *PATHS)


@CARGO.proves("http2")
async def test_http2_is_spoken_where_the_rules_open_it(tmp_path: Path) -> None:
    async with over_http2(tmp_path) as stage:
        shelve(stage.scene.upstream, registry(AT, stage.url("")))
        # With some versions of libcurl, that of Debian 12 among them, cargo does so only when it is told to.
        told = replace(CARGO, around={"CARGO_HTTP_MULTIPLEXING": "true"})
        ran = await fetch(stage, told)
        assert ran.status == 0, ran.err
        assert (crate(stage) / "src/lib.rs").read_bytes() == SOURCE
        unlocked(stage.scene.upstream, *PATHS)
        alpns = [(line["alpn"], line["upstream_alpn"]) for line in stage.scene.stack.exchanges()]
        assert alpns == [("h2", "h2")] * len(PATHS)
