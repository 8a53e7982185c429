"""Rules on MCP between the client and the server of the `mcp` package, in both kinds of revisions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.peers.fetched import PROGRAMS, python
from tests.peers.up_lab import free_port
from tests.proxy.clients.program import run, started
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.tiers import ALSO

pytestmark = [pytest.mark.timeout(600)]

CERTS = Certificates()
VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
ALL = """
  tools: ["*"]
  resources: ["**"]
  prompts: ["*"]
  server_requests: [roots/list]
"""
SOME = """
  tools: [search_issues, count_roots, {name: create_issue, when: {repo: acme/app, "labels/*": bug}}]
  resources: ["repo://acme/**", "repo://{owner}/readme"]
  prompts: [review]
"""
DENIED = -32010
PEERS_OF_MODES = [
    ("legacy", "events"),
    pytest.param("legacy", "json", marks=ALSO),
    pytest.param("auto", "events", marks=ALSO),
    ("auto", "json"),
]


def rules(port: int, mcp: str) -> str:
    return f"""
version: 1
hosts:
  {NAME}:
    ports: []
    http: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - id: mcp
        paths: [/mcp]
        mcp: {{{", ".join(line.strip() for line in mcp.strip().splitlines())}}}
"""


@asynccontextmanager
async def server(folder: Path, form: str) -> AsyncIterator[int]:
    """The server, and its port."""
    port = free_port()
    words = (str(python()), "-P", str(PROGRAMS / "mcp_rules_server.py"), str(port), form)
    async with started(folder, *words) as process:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"listening\n"
        yield port


async def ask(folder: Path, url: str, mode: str, proxy: str = "") -> dict[str, Any]:
    """What the client met."""
    words = (str(python()), "-P", str(PROGRAMS / "mcp_rules_client.py"), url, mode, *filter(None, [proxy]))
    done = await run(folder, *words, patience=120)
    assert done.status == 0, done.err
    found: dict[str, Any] = json.loads(done.text)
    return found


def texts(found: dict[str, Any]) -> list[str]:
    return [each["text"] for each in found["content"]]


@pytest.mark.parametrize(("mode", "form"), PEERS_OF_MODES)
async def test_16_nothing_changes_where_everything_is_allowed(
    peers: None, tmp_path: Path, mode: str, form: str
) -> None:
    async with server(tmp_path, form) as port, ProxyStack(tmp_path, CERTS, rules(port, ALL)) as stack:
        plain = await ask(tmp_path, f"http://127.0.0.1:{port}/mcp", mode)
        through = await ask(tmp_path, f"http://{NAME}:{port}/mcp", mode, stack.url)
        lines = stack.exchanges()
    assert through == plain
    assert plain["version"] == VERSIONS[mode]
    assert texts(plain["delete"]) == ["deleted acme/app"]
    # The SDK's server asks nothing in the middle of a call that it answers in JSON.
    assert (mode, form) == ("legacy", "json") or texts(plain["roots"]) == ["1"]
    assert {line["verdict"] for line in lines} == {"allow"}
    # The handshake, its stream and its end went the same way as the calls.
    assert {line["method"] for line in lines} == ({"POST", "GET", "DELETE"} if mode == "legacy" else {"POST"})


@pytest.mark.parametrize(("mode", "form"), PEERS_OF_MODES)
async def test_16_rules_hide_and_refuse_what_they_do_not_name(
    peers: None, tmp_path: Path, mode: str, form: str
) -> None:
    async with server(tmp_path, form) as port, ProxyStack(tmp_path, CERTS, rules(port, SOME)) as stack:
        found = await ask(tmp_path, f"http://{NAME}:{port}/mcp", mode, stack.url)
        lines = stack.exchanges()
    assert found["version"] == VERSIONS[mode]
    assert found["tools"] == ["search_issues", "create_issue", "count_roots"]
    assert found["resources"] == ["repo://acme/app"]
    assert found["templates"] == ["repo://{owner}/readme"]
    assert found["prompts"] == ["review"]
    assert texts(found["search"]) == ["found is:open"]
    assert found["progress"] == ([1.0] if form == "events" else found["progress"])
    assert found["create"]["structured_content"]["repo"] == "acme/app"
    assert found["create elsewhere"] == [DENIED, "mcp.arguments"]
    assert found["delete"] == [DENIED, "mcp.tool"]
    assert found["read"]["contents"][0]["text"] == "app"
    assert found["read other"] == [DENIED, "mcp.resource"]
    assert found["prompt"]["messages"][0]["content"]["text"] == "review größe.txt"
    assert found["release"] == [DENIED, "mcp.prompt"]
    # The older client never hears of the request, and the newer one gets an error in its place.
    assert isinstance(found["roots"], list)
    assert mode == "legacy" or found["roots"] == [DENIED, "mcp.server_request"]
    facts = [each for line in lines if isinstance(each := line.get("facts"), dict)]
    dropped = {str(each["mcp_dropped"]) for each in facts if "mcp_dropped" in each}
    assert dropped == (set() if (mode, form) == ("legacy", "json") else {"roots/list"})
