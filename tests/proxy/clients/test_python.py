"""Python's HTTP clients work through the proxy with what a user would set, and nothing else."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients import cache, denied_host, password_proxy, proofs
from tests.proxy.clients.client import PROGRAMS, Client, calling, installed, printed, proving
from tests.proxy.clients.stage import Stage
from tests.proxy.lab.raw_upstream import RawUpstream

PROXY = {"HTTPS_PROXY": "{proxy}"}
OPENSSL = PROXY | {"SSL_CERT_FILE": "{bundle}"}
FAMILY = "Python"
HERE = PROGRAMS / "python"
FETCHED = cache.PYTHON.folder / "venv/bin/python"

URLLIB = Client(
    name="urllib, standard library",
    family=FAMILY,
    version=printed(sys.executable, "--version"),
    command=calling(sys.executable, HERE / "with_urllib.py"),
    variables=OPENSSL,
    denied="HTTP Error 403: Egress host.unknown (egress log suggest ID)",
)
REQUESTS = Client(
    name="requests",
    family=FAMILY,
    version=installed("requests"),
    command=calling(sys.executable, HERE / "with_requests.py"),
    variables=PROXY | {"REQUESTS_CA_BUNDLE": "{bundle}"},
    cannot={"SSL_CERT_FILE": "read `SSL_CERT_FILE`: it brings roots of its own"},
    denied="403 Client Error: Egress host.unknown (egress log suggest ID)",
)
URLLIB3 = Client(
    name="urllib3",
    family=FAMILY,
    version=installed("urllib3"),
    command=calling(sys.executable, HERE / "with_urllib3.py"),
    around=OPENSSL,
    program="`ProxyManager(proxy, ca_certs=bundle)`: it reads no variable by itself",
    denied=denied_host.REASON,
)
HTTPX = Client(
    name="httpx",
    family=FAMILY,
    version=installed("httpx"),
    command=calling(sys.executable, HERE / "with_httpx.py"),
    variables=OPENSSL,
    program="`http2=True` for HTTP/2",
    denied="Client error '403 Egress host.unknown (egress log suggest ID)'",
)
AIOHTTP = Client(
    name="aiohttp",
    family=FAMILY,
    version=printed(FETCHED, "-c", "import aiohttp; print(aiohttp.__version__)"),
    command=calling(FETCHED, HERE / "with_aiohttp.py"),
    # `wss://` has a variable of its own here.
    variables=OPENSSL | {"WSS_PROXY": "{proxy}"},
    program="`ClientSession(trust_env=True)`",
    denied="403, message='Egress host.unknown (egress log suggest ID)'",
)
WEBSOCKETS = Client(
    name="websockets",
    family=FAMILY,
    version=installed("websockets"),
    command=calling(sys.executable, HERE / "with_websockets.py"),
    variables=OPENSSL,
)
ALL = (URLLIB, REQUESTS, URLLIB3, HTTPX, AIOHTTP)


@pytest.fixture(autouse=True)
def packages(request: pytest.FixtureRequest) -> None:
    if hasattr(request.node, "callspec") and AIOHTTP in request.node.callspec.params.values():
        cache.PYTHON.require(request)


@proving("plain", *ALL)
async def test_a_page_arrives(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.plain(stage, client)


@proving("injected", *ALL)
async def test_the_credential_is_injected(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.injected(stage, client)


@proving("refusal", *ALL)
async def test_a_refusal_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.refusal(stage, client)


@proving("denied", *ALL)
async def test_a_denied_host_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await denied_host.host(stage, client)


@proving("password", *(client for client in ALL if client is not URLLIB3))
async def test_a_password_is_given(stage: Stage[RawUpstream], client: Client) -> None:
    await password_proxy.password(stage, client)


@proving("large", *ALL)
async def test_a_large_page_arrives_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.large(stage, client)


@proving("upload", *ALL)
async def test_a_large_file_goes_up_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.upload(stage, client)


@proving("streaming", *ALL)
async def test_a_stream_is_read_as_it_comes(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.streaming(stage, client)


@REQUESTS.proves("SSL_CERT_FILE")
async def test_requests_does_not_read_the_variable_of_openssl(stage: Stage[RawUpstream]) -> None:
    await proofs.distrust(stage, replace(REQUESTS, variables=OPENSSL))


@pytest.mark.parametrize("client", ALL, ids=lambda client: client.name)
async def test_without_the_certificate_nothing_is_believed(stage: Stage[RawUpstream], client: Client) -> None:
    """What the other tests show rests on what was set, and not on a client that looks at nothing."""
    empty = {"SSL_CERT_FILE": str(stage.scene.stack.folder / "upstreams.pem")} if client is URLLIB3 else {}
    await proofs.distrust(stage, replace(client, variables=PROXY, around=PROXY | empty))


@proving("websocket", AIOHTTP, WEBSOCKETS)
async def test_a_websocket_echoes(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.websocket(stage, client)


@proving("http2", HTTPX)
async def test_http2_is_spoken_on_both_sides(tmp_path: Path, client: Client) -> None:
    await proofs.http2(tmp_path, client)
