"""Every client that asks for a page trusts the authority and finds the door with the kit, and nothing else.

The kit has two halves, and each is tried by itself as well: what the variables say, and what is mounted
over the files of the distribution.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients import proofs, test_go, test_java, test_javascript, test_node, test_perl, test_php
from tests.proxy.clients import test_command_line as shell
from tests.proxy.clients import test_python as python
from tests.proxy.clients import test_ruby as ruby
from tests.proxy.clients.client import Client
from tests.proxy.clients.stage import Stage
from tests.proxy.lab.proxy_stack import OTHER
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.runtime.kit.client_requirements import require, running
from tests.runtime.kit.kit_stage import KitStage, by_mounts, by_variables

PAGES = (
    *(shell.CURL, shell.WGET, shell.S_CLIENT, test_go.GO, test_java.JAVA, test_java.OLD),
    *(test_javascript.FETCH, test_javascript.AXIOS, test_javascript.UNDICI),
    *(test_perl.LWP, test_perl.TINY, test_php.CURL, test_php.STREAMS),
    *(python.URLLIB, python.URLLIB3, python.REQUESTS, python.HTTPX, python.AIOHTTP),
    *(ruby.RUBY, ruby.OPEN),
)
FRAMES = (python.WEBSOCKETS, python.AIOHTTP, test_javascript.FETCH, test_javascript.WS, test_java.JAVA)
"""Those that open a WebSocket."""

BY_THE_SYSTEM = (
    *(shell.CURL, shell.WGET, shell.S_CLIENT, test_go.GO),
    *(test_perl.TINY, test_php.CURL, test_php.STREAMS, ruby.RUBY),
)
"""Those that ask whom the system trusts when no variable tells them."""
BY_THEIR_OWN = (test_javascript.FETCH, python.REQUESTS, python.HTTPX)
"""Those that bring roots along and never look at the system's."""


@running(*PAGES)
async def test_a_page_arrives(
    stage: KitStage[RawUpstream], client: Client, request: pytest.FixtureRequest
) -> None:
    require(client, request)
    await proofs.plain(stage, client)


@running(*FRAMES)
async def test_a_websocket_opens(
    stage: KitStage[RawUpstream], client: Client, request: pytest.FixtureRequest
) -> None:
    require(client, request)
    await proofs.websocket(stage, client)


@running(*PAGES, once_more=True)
async def test_the_variables_are_enough_where_nothing_can_be_mounted(
    bare: Stage[RawUpstream], client: Client, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    require(client, request)
    await proofs.plain(by_variables(bare, tmp_path), client)


@running(*BY_THE_SYSTEM)
async def test_the_mounts_are_enough_for_those_who_ask_the_system(
    bare: Stage[RawUpstream], client: Client, request: pytest.FixtureRequest, namespace: None, tmp_path: Path
) -> None:
    require(client, request)
    await proofs.plain(by_mounts(bare, tmp_path), client)


@running(*BY_THEIR_OWN)
async def test_the_mounts_are_nothing_to_those_who_bring_roots_along(
    bare: Stage[RawUpstream], client: Client, request: pytest.FixtureRequest, namespace: None, tmp_path: Path
) -> None:
    """Which is why there are variables: and it shows that these tests can fail."""
    require(client, request)
    stage = by_mounts(bare, tmp_path)
    await proofs.distrust(replace(stage, variables={**stage.variables, "NODE_USE_ENV_PROXY": "1"}), client)


@running(test_java.OLD)
async def test_java_takes_the_store_that_is_mounted_over_the_one_of_the_distribution(
    bare: Stage[RawUpstream], client: Client, request: pytest.FixtureRequest, namespace: None, tmp_path: Path
) -> None:
    require(client, request)
    stage = by_mounts(bare, tmp_path)
    port = stage.scene.stack.port
    told = {"JAVA_TOOL_OPTIONS": f"-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort={port}"}
    await proofs.plain(replace(stage, variables={**stage.variables, **told}), client)


@running(test_node.NODE)
async def test_an_old_node_finds_the_door_by_name_and_trusts_it(
    stage: KitStage[RawUpstream], client: Client, request: pytest.FixtureRequest
) -> None:
    """It reads no proxy variable: in a sandbox each name leads to the door, which is what the script does."""
    await stage.scene.stack.open_transparent(test_node.DOOR, stage.scene.port)
    url = json.dumps(stage.url("/bytes?n=10", OTHER))
    script = f"{test_node.TRANSPARENT} fetch({url}).then((answer) => console.log(answer.status));"
    ran = await stage.run(client, "node", "-e", script)
    assert ran.text == "200\n", ran.err
    (line,) = stage.scene.stack.exchanges()
    assert line["entry"] == "sni"


SERVER = """
from http.server import HTTPServer, SimpleHTTPRequestHandler

server = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
print(server.server_port)
server.serve_forever()
"""


@pytest.mark.system("curl", "curl")
@pytest.mark.system("wget", "wget")
@pytest.mark.system("node", "nodejs")
async def test_a_server_of_the_sandbox_is_reached_without_the_door(stage: KitStage[RawUpstream]) -> None:
    """Programs are tried out against a server on loopback all the time; that is no business of the rules."""
    (stage.home / "server.py").write_text(SERVER)
    script = """
    python3 -u server.py 2>/dev/null >port & trap 'kill $!' EXIT
    while ! read -r port <port; do :; done
    for host in localhost 127.0.0.1; do
      curl --silent --fail --output /dev/null "http://$host:$port/" && echo curl
      wget --quiet --output-document=/dev/null "http://$host:$port/" && echo wget
      python3 -c "import urllib.request as u; u.urlopen('http://$host:$port/')" && echo python
      node -e "fetch('http://$host:$port/').then(() => console.log('node'))"
    done
    """
    ran = await stage.run(shell.CURL, "sh", "-c", script)
    assert ran.text.split() == ["curl", "wget", "python", "node"] * 2, ran.err
    assert not stage.scene.stack.lines()
