"""The HTTP clients of Node work through the proxy with what a user would set, and nothing else.

Node's own fetch reads the proxy variables only in newer versions, and only when it is told to: such a Node
is fetched from the index. What an older one can do is shown by test_node.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients import cache, denied_host, password_proxy, proofs
from tests.proxy.clients.client import PROGRAMS, Client, calling, printed, proving
from tests.proxy.clients.stage import Stage
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = [pytest.mark.system("node", "nodejs"), pytest.mark.system("npm", "npm")]

HERE = PROGRAMS / "node"
FAMILY = "Node"
VARIABLES = {"HTTPS_PROXY": "{proxy}", "NODE_EXTRA_CA_CERTS": "{certificate}"}
PACKAGES = {"NODE_PATH": str(cache.NODE.folder / "node_modules")}
NEWER = cache.NEWER_NODE.folder / "node_modules/.bin/node"


def version(package: str) -> Callable[[], str]:
    return printed(
        "node", "-p", f"require('{cache.NODE.folder}/node_modules/{package}/package.json').version"
    )


FETCH = Client(
    name="fetch of Node 24",
    family=FAMILY,
    version=printed(NEWER, "--version"),
    command=calling(NEWER, HERE / "with_fetch.js"),
    variables=VARIABLES | {"NODE_USE_ENV_PROXY": "1"},
    denied=denied_host.REASON,
)
UNDICI = Client(
    name="undici",
    family=FAMILY,
    version=version("undici"),
    command=calling("node", HERE / "with_undici.js"),
    variables=VARIABLES,
    around=PACKAGES,
    program="`setGlobalDispatcher(new EnvHttpProxyAgent())`; for HTTP/2, `allowH2` there and in `requestTls`",
    denied=denied_host.REASON,
)
AXIOS = Client(
    name="axios",
    family=FAMILY,
    version=version("axios"),
    command=calling("node", HERE / "with_axios.js"),
    variables=VARIABLES,
    around=PACKAGES,
    denied=denied_host.REASON,
)
WS = Client(
    name="ws",
    family=FAMILY,
    version=version("ws"),
    command=calling("node", HERE / "with_ws.js"),
    variables={"NODE_EXTRA_CA_CERTS": "{certificate}"},
    around={**PACKAGES, "HTTPS_PROXY": "{proxy}"},
    program="`agent: new HttpsProxyAgent(proxy)`: it reads no variable by itself",
)
HTTP = (FETCH, UNDICI, AXIOS)


@pytest.fixture(autouse=True)
def packages(request: pytest.FixtureRequest) -> None:
    is_newer = hasattr(request.node, "callspec") and FETCH in request.node.callspec.params.values()
    (cache.NEWER_NODE if is_newer else cache.NODE).require(request)


@proving("plain", *HTTP)
async def test_a_page_arrives(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.plain(stage, client)


@proving("injected", *HTTP)
async def test_the_credential_is_injected(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.injected(stage, client)


@proving("refusal", *HTTP)
async def test_a_refusal_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.refusal(stage, client)


@proving("denied", *HTTP)
async def test_a_denied_host_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await denied_host.host(stage, client)


@proving("password", *HTTP)
async def test_a_password_is_given(stage: Stage[RawUpstream], client: Client) -> None:
    await password_proxy.password(stage, client)


@proving("large", *HTTP)
async def test_a_large_page_arrives_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.large(stage, client)


@proving("upload", *HTTP)
async def test_a_large_file_goes_up_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.upload(stage, client)


@proving("streaming", *HTTP)
async def test_a_stream_is_read_as_it_comes(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.streaming(stage, client)


@pytest.mark.parametrize("client", HTTP, ids=lambda client: client.name)
async def test_without_the_certificate_nothing_is_believed(stage: Stage[RawUpstream], client: Client) -> None:
    """What the other tests show rests on what was set, and not on a client that looks at nothing."""
    told = {name: text for name, text in client.variables.items() if name != "NODE_EXTRA_CA_CERTS"}
    await proofs.distrust(stage, replace(client, variables=told))


@proving("websocket", FETCH, UNDICI, WS)
async def test_a_websocket_echoes(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.websocket(stage, client)


@proving("http2", UNDICI)
async def test_http2_is_spoken_on_both_sides(tmp_path: Path, client: Client) -> None:
    await proofs.http2(tmp_path, client)
