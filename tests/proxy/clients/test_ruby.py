"""Ruby works through the proxy: net/http, open-uri, and the gems that are fetched from an index."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients import denied_host, password_proxy, proofs
from tests.proxy.clients.client import PROGRAMS, Ask, Client, calling, printed, proving
from tests.proxy.clients.scene import unlocked
from tests.proxy.clients.stage import Stage
from tests.proxy.clients.standins.gems import index
from tests.proxy.clients.standins.home_leftovers import kept_nothing
from tests.proxy.clients.standins.incompressible import ballast, is_whole
from tests.proxy.clients.standins.static_files import shelve
from tests.proxy.lab.proxy_stack import OTHER
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = pytest.mark.system("ruby", "ruby")

RUBY = Client(
    name="net/http of Ruby",
    family="Ruby",
    version=printed("ruby", "--version"),
    command=calling("ruby", PROGRAMS / "ruby/with_net_http.rb"),
    variables={"http_proxy": "{proxy}", "SSL_CERT_FILE": "{bundle}"},
    cannot={"https_proxy": "read `https_proxy`: for `https://` too it looks at `http_proxy`"},
    denied='403 "Egress host.unknown (egress log suggest ID)"',
)
OPEN = Client(
    name="open-uri",
    family="Ruby",
    version=printed("ruby", "--version"),
    command=calling("ruby", PROGRAMS / "ruby/with_open_uri.rb"),
    variables={"https_proxy": "{proxy}", "SSL_CERT_FILE": "{bundle}"},
    denied=denied_host.REASON,
)


@proving("plain", RUBY, OPEN)
async def test_a_page_arrives(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.plain(stage, client)


@proving("injected", RUBY, OPEN)
async def test_the_credential_is_injected(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.injected(stage, client)


@proving("refusal", RUBY, OPEN)
async def test_a_refusal_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.refusal(stage, client)


@proving("denied", RUBY, OPEN)
async def test_a_denied_host_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await denied_host.host(stage, client)


@RUBY.proves("https_proxy")
async def test_net_http_goes_past_the_variable_that_others_read(stage: Stage[RawUpstream]) -> None:
    ran = await stage.ask(replace(RUBY, variables=OPEN.variables), "get", "/small")
    assert ran.status != 0
    assert not stage.scene.stack.lines()


@proving("password", RUBY, OPEN)
async def test_a_password_is_given(stage: Stage[RawUpstream], client: Client) -> None:
    await password_proxy.password(stage, client)


@proving("large", RUBY, OPEN)
async def test_a_large_page_arrives_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.large(stage, client)


@RUBY.proves("upload")
async def test_a_large_file_goes_up_whole(stage: Stage[RawUpstream]) -> None:
    await proofs.upload(stage, RUBY)


@RUBY.proves("streaming")
async def test_a_stream_is_read_as_it_comes(stage: Stage[RawUpstream]) -> None:
    await proofs.streaming(stage, RUBY)


# Gems -----------------------------------------------------------------------------------------------

AT = "/gems"
CONTENT = b"puts 'hello'\n"


def gem(ask: Ask) -> tuple[str, ...]:
    wanted = ("--norc", "--no-document", "--clear-sources", "--source", f"{ask.url}/")
    return ("gem", "install", *wanted, "tiny")


GEM = Client(
    name="gem",
    family="Ruby",
    version=printed("gem", "--version"),
    command=gem,
    variables={"https_proxy": "{proxy}", "SSL_CERT_FILE": "{bundle}"},
    # Otherwise root keeps what it fetched in the cache of the system, and fetches it only once.
    around={"GEM_HOME": "{home}/.gem", "GEM_PATH": "{home}/.gem"},
    denied="bad response Egress host.unknown (egress log suggest ID) 403",
)


def installed_gem(stage: Stage[RawUpstream]) -> bytes:
    """What of the gem lies where it is looked for."""
    return (stage.home / ".gem/gems/tiny-1.0.0/lib/tiny.rb").read_bytes()


@GEM.proves("install", "injected")
async def test_a_gem_is_installed_from_an_index_that_wants_a_credential(
    stage: Stage[RawUpstream], tmp_path: Path
) -> None:
    files = await index(tmp_path, AT, CONTENT)
    shelve(stage.scene.upstream, files)
    ran = await stage.ask(GEM, "get", AT)
    assert ran.status == 0, ran.err
    assert installed_gem(stage) == CONTENT
    unlocked(stage.scene.upstream, *files)
    kept_nothing(stage.home)


@GEM.proves("plain")
async def test_a_gem_is_installed_from_an_index_that_wants_none(
    stage: Stage[RawUpstream], tmp_path: Path
) -> None:
    shelve(stage.scene.upstream, await index(tmp_path, AT, CONTENT))
    ran = await stage.ask(GEM, "get", AT, OTHER)
    assert ran.status == 0, ran.err
    assert installed_gem(stage) == CONTENT
    assert not [line for line in stage.scene.stack.exchanges() if line["injected"]]


@GEM.proves("password")
async def test_gem_gives_a_password(stage: Stage[RawUpstream], tmp_path: Path) -> None:
    shelve(stage.scene.upstream, await index(tmp_path, AT, CONTENT))
    ran = await stage.ask(await password_proxy.guarded(stage, GEM), "get", AT)
    assert ran.status == 0, ran.err
    assert installed_gem(stage) == CONTENT


@GEM.proves("large")
async def test_a_large_gem_is_installed_whole(stage: Stage[RawUpstream], tmp_path: Path) -> None:
    shelve(stage.scene.upstream, await index(tmp_path, AT, ballast()))
    ran = await stage.ask(GEM, "get", AT)
    assert ran.status == 0, ran.err
    assert is_whole(installed_gem(stage))


@GEM.proves("refusal")
async def test_gem_shows_why_it_is_refused(stage: Stage[RawUpstream]) -> None:
    ran = await stage.ask(GEM, "get", "/private")
    assert ran.status != 0
    assert "bad response Egress rule.denied (egress log suggest " in ran.err
    assert not stage.scene.upstream.links


@GEM.proves("denied")
async def test_gem_shows_why_a_host_is_denied(stage: Stage[RawUpstream]) -> None:
    await denied_host.host(stage, GEM)
