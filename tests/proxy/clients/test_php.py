"""PHP works through the proxy: the curl extension by itself, and streams when the program names the proxy."""

from __future__ import annotations

import functools
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients import denied_host, password_proxy, proofs
from tests.proxy.clients.cache import UNDER_CI
from tests.proxy.clients.client import PROGRAMS, Client, calling, printed, proving
from tests.proxy.clients.stage import Stage
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = pytest.mark.system("php", "php-cli")
EXTENSION = "the extension curl of PHP (apt install php-curl)"


@functools.cache
def has_extension() -> bool:
    ran = subprocess.run(["php", "-m"], capture_output=True, text=True, timeout=60, check=True)
    return "curl" in ran.stdout.split()


@pytest.fixture(autouse=True)
def extension(request: pytest.FixtureRequest) -> None:
    """It comes in a package of its own; without it a test is left out with a word, and fails under CI."""
    if has_extension():
        return
    if UNDER_CI:
        pytest.fail(f"{EXTENSION} is missing: add it to the packages in .ci/run", pytrace=False)
    request.node.user_properties.append(("left-out", EXTENSION))
    pytest.skip(f"needs {EXTENSION}")


CURL = Client(
    name="curl of PHP",
    family="PHP",
    version=printed("php", "--version"),
    command=calling("php", PROGRAMS / "php/with_curl.php"),
    variables={"HTTPS_PROXY": "{proxy}", "PHP_INI_SCAN_DIR": ":{home}/php"},
    files={"php/egress.ini": "curl.cainfo = {bundle}\n"},
    cannot={
        "SSL_CERT_FILE": "read `SSL_CERT_FILE`: of whom to trust it reads in `php.ini`",
    },
    denied="egress-denied: host.unknown",
)
STREAMS = Client(
    name="streams of PHP",
    family="PHP",
    version=printed("php", "--version"),
    command=calling("php", PROGRAMS / "php/with_streams.php"),
    variables={"HTTPS_PROXY": "{proxy}", "SSL_CERT_FILE": "{bundle}"},
    program=(
        '`["http" => ["proxy" => "tcp://host:port"]]` as the context, for no variable is read;'
        " a stream that comes in chunks is read byte by byte, or it waits for 8 KiB"
    ),
    cannot={
        "password of the proxy": "give a password that stands in the URL: the program puts it into a header",
    },
    denied="HTTP/1.1 403 Egress host.unknown (egress log suggest ID)",
)


@proving("plain", CURL, STREAMS)
async def test_a_page_arrives(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.plain(stage, client)


@proving("injected", CURL, STREAMS)
async def test_the_credential_is_injected(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.injected(stage, client)


@proving("refusal", CURL, STREAMS)
async def test_a_refusal_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.refusal(stage, client)


@proving("denied", CURL, STREAMS)
async def test_a_denied_host_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await denied_host.host(stage, client)


@CURL.proves("SSL_CERT_FILE")
async def test_curl_goes_past_the_variable_that_streams_read(stage: Stage[RawUpstream]) -> None:
    ran = await stage.ask(replace(CURL, variables=STREAMS.variables, files={}), "get", "/small")
    assert ran.status != 0
    assert "certificate" in ran.err
    assert not stage.scene.upstream.links


@CURL.proves("password")
async def test_a_password_is_given(stage: Stage[RawUpstream]) -> None:
    await password_proxy.password(stage, CURL)


@STREAMS.proves("password of the proxy")
async def test_a_password_is_taken_for_a_part_of_the_host(stage: Stage[RawUpstream]) -> None:
    ran = await stage.ask(await password_proxy.guarded(stage, STREAMS), "get", "/small")
    assert ran.status != 0
    assert not stage.scene.stack.lines()


@proving("large", CURL, STREAMS)
async def test_a_large_page_arrives_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.large(stage, client)


@proving("upload", CURL, STREAMS)
async def test_a_large_file_goes_up_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.upload(stage, client)


@proving("streaming", CURL, STREAMS)
async def test_a_stream_is_read_as_it_comes(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.streaming(stage, client)


@CURL.proves("http2")
async def test_http2_is_spoken_where_the_rules_open_it(tmp_path: Path) -> None:
    await proofs.http2(tmp_path, CURL)
