"""Go works through the proxy: net/http as a program uses it, and the modules that the go command fetches."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.proxy.clients import compiled_programs, denied_host, password_proxy, proofs
from tests.proxy.clients.client import Ask, Client, calling, printed
from tests.proxy.clients.scene import unlocked
from tests.proxy.clients.stage import Stage, over_http2
from tests.proxy.clients.standins.go_modules import MODULE, SOURCE, modules
from tests.proxy.clients.standins.home_leftovers import kept_a_mask
from tests.proxy.clients.standins.incompressible import ballast, is_whole
from tests.proxy.clients.standins.static_files import shelve
from tests.proxy.lab.http2 import Http2Upstream
from tests.proxy.lab.proxy_stack import OTHER
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = pytest.mark.system("go", "golang-go")

GO = Client(
    name="net/http of Go",
    family="Go",
    version=printed("go", "version"),
    command=calling(compiled_programs.GO.folder / "ask"),
    variables={"HTTPS_PROXY": "{proxy}", "SSL_CERT_FILE": "{bundle}"},
    denied=denied_host.REASON,
)


@pytest.fixture(autouse=True)
def program(request: pytest.FixtureRequest) -> None:
    compiled_programs.GO.require(request)


@GO.proves("plain")
async def test_a_page_arrives(stage: Stage[RawUpstream]) -> None:
    await proofs.plain(stage, GO)


@GO.proves("injected")
async def test_the_credential_is_injected(stage: Stage[RawUpstream]) -> None:
    await proofs.injected(stage, GO)


@GO.proves("refusal")
async def test_a_refusal_shows_why(stage: Stage[RawUpstream]) -> None:
    await proofs.refusal(stage, GO)


@GO.proves("denied")
async def test_a_denied_host_shows_why(stage: Stage[RawUpstream]) -> None:
    await denied_host.host(stage, GO)


@GO.proves("password")
async def test_a_password_is_given(stage: Stage[RawUpstream]) -> None:
    await password_proxy.password(stage, GO)


@GO.proves("large")
async def test_a_large_page_arrives_whole(stage: Stage[RawUpstream]) -> None:
    await proofs.large(stage, GO)


@GO.proves("upload")
async def test_a_large_file_goes_up_whole(stage: Stage[RawUpstream]) -> None:
    await proofs.upload(stage, GO)


@GO.proves("streaming")
async def test_a_stream_is_read_as_it_comes(stage: Stage[RawUpstream]) -> None:
    await proofs.streaming(stage, GO)


@GO.proves("http2")
async def test_http2_is_spoken_where_the_rules_open_it(tmp_path: Path) -> None:
    await proofs.http2(tmp_path, GO)


# Modules --------------------------------------------------------------------------------------------

AT = "/go"


def download(ask: Ask) -> tuple[str, ...]:
    # `env` searches only the system's own folders, and a toolchain may stand elsewhere.
    go = shutil.which("go") or "go"
    return ("env", f"GOPROXY={ask.url}", go, "mod", "download", f"{MODULE}@v1.0.0")


MODULES = Client(
    name="go mod",
    family="Go",
    version=printed("go", "version"),
    command=download,
    variables={"HTTPS_PROXY": "{proxy}", "SSL_CERT_FILE": "{bundle}"},
    # The database of checksums knows nothing of a module that is made up.
    around={"GOSUMDB": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-modcacherw"},
    denied=denied_host.REASON,
)


def unpacked(stage: Stage[RawUpstream] | Stage[Http2Upstream], name: str) -> bytes:
    """A file of the module, where the go command looks for it."""
    return (stage.home / "go/pkg/mod" / f"{MODULE}@v1.0.0" / name).read_bytes()


@MODULES.proves("plain", "install")
async def test_a_module_is_downloaded(stage: Stage[RawUpstream]) -> None:
    files = modules(AT)
    shelve(stage.scene.upstream, files)
    ran = await stage.ask(MODULES, "get", AT, OTHER)
    assert ran.status == 0, ran.err
    assert unpacked(stage, "tiny.go") == SOURCE
    assert [request.path for request in stage.scene.upstream.requests] == list(files)
    assert not [line for line in stage.scene.stack.exchanges() if line["injected"]]


@MODULES.proves("injected")
async def test_private_modules_are_given_the_credential(stage: Stage[RawUpstream]) -> None:
    files = modules(AT)
    shelve(stage.scene.upstream, files)
    ran = await stage.ask(MODULES, "get", AT)
    assert ran.status == 0, ran.err
    assert unpacked(stage, "tiny.go") == SOURCE
    unlocked(stage.scene.upstream, *files)
    kept_a_mask(stage.home)
    stage.scene.carried(*[("GET", path, 200) for path in files])


@MODULES.proves("refusal")
async def test_go_mod_shows_why_it_is_refused(stage: Stage[RawUpstream]) -> None:
    ran = await stage.ask(MODULES, "get", "/private")
    assert ran.status != 0
    assert "Egress rule.denied" in ran.err
    assert not stage.scene.upstream.links


@MODULES.proves("denied")
async def test_go_mod_shows_why_a_host_is_denied(stage: Stage[RawUpstream]) -> None:
    await denied_host.host(stage, MODULES)


@MODULES.proves("password")
async def test_go_mod_gives_a_password(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, modules(AT))
    ran = await stage.ask(await password_proxy.guarded(stage, MODULES), "get", AT)
    assert ran.status == 0, ran.err


@MODULES.proves("large")
async def test_a_large_module_arrives_whole(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, modules(AT, ballast()))
    ran = await stage.ask(MODULES, "get", AT)
    assert ran.status == 0, ran.err
    assert is_whole(unpacked(stage, "ballast"))


@MODULES.proves("http2")
async def test_modules_come_over_http2_where_the_rules_open_it(tmp_path: Path) -> None:
    async with over_http2(tmp_path) as stage:
        files = modules(AT)
        shelve(stage.scene.upstream, files)
        ran = await stage.ask(MODULES, "get", AT)
        assert ran.status == 0, ran.err
        assert unpacked(stage, "tiny.go") == SOURCE
        unlocked(stage.scene.upstream, *files)
