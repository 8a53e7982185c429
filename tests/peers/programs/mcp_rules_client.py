"""The client of the `mcp` package, unchanged, at a server of MCP; prints what it met as JSON.

    python mcp_rules_client.py URL MODE [PROXY]

MODE is `legacy`, for a handshake, or `auto`, for the newest revision. An error of the server is its code.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable
from typing import Any

import httpx2
from mcp import types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

PATIENCE = 3
"""Seconds for a request of the server that nobody answers."""
REPO = {"repo": "acme/app", "labels": ["bug"]}


async def outcome(asked: Awaitable[Any]) -> object:
    """What came of it, or the codes of an error."""
    try:
        result = await asked
    except MCPError as error:
        data = error.error.data
        return [error.error.code, data.get("code") if isinstance(data, dict) else None]
    found: object = result.model_dump(mode="json", exclude={"meta"})
    return found


async def roots(_: object) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///workspace")])


async def main(url: str, mode: str, proxy: str = "") -> None:
    heard: list[float] = []

    async def progress(done: float, *_: object) -> None:
        heard.append(done)

    http = httpx2.AsyncClient(proxy=proxy or None, trust_env=False, timeout=30)
    transport = streamable_http_client(url, http_client=http)
    async with Client(transport, mode=mode, list_roots_callback=roots, cache=None) as client:
        found: dict[str, Any] = {
            "version": client.protocol_version,
            "tools": [each.name for each in (await client.list_tools()).tools],
            "resources": [str(each.uri) for each in (await client.list_resources()).resources],
            "templates": [
                each.uri_template for each in (await client.list_resource_templates()).resource_templates
            ],
            "prompts": [each.name for each in (await client.list_prompts()).prompts],
            "search": await outcome(
                client.call_tool("search_issues", {"query": "is:open"}, progress_callback=progress)
            ),
            "create": await outcome(client.call_tool("create_issue", REPO)),
            "create elsewhere": await outcome(
                client.call_tool("create_issue", {**REPO, "repo": "other/app"})
            ),
            "delete": await outcome(client.call_tool("delete_repo", {"repo": "acme/app"})),
            "read": await outcome(client.read_resource("repo://acme/app")),
            "read other": await outcome(client.read_resource("repo://other/app")),
            "prompt": await outcome(client.get_prompt("review", {"path": "größe.txt"})),
            "release": await outcome(client.get_prompt("release", {})),
        }
        found["roots"] = await outcome(client.call_tool("count_roots", {}, read_timeout_seconds=PATIENCE))
    found["progress"] = heard
    print(json.dumps(found))


asyncio.run(main(*sys.argv[1:]))
