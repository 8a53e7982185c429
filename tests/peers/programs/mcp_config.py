"""Reads a configuration as clients of MCP do, connects to its server, and runs one command there.

python mcp_config.py FILE COMMAND
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from string import Template
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


def transport(server: dict[str, Any]) -> AbstractAsyncContextManager[Any]:
    found: AbstractAsyncContextManager[Any]
    if "url" in server:
        headers = {name: Template(text).substitute(os.environ) for name, text in server["headers"].items()}
        found = streamable_http_client(server["url"], http_client=httpx2.AsyncClient(headers=headers))
    else:
        words = StdioServerParameters(command=server["command"], args=server["args"], env=dict(os.environ))
        found = stdio_client(words)
    return found


async def main(server: dict[str, Any], command: str) -> None:
    async with Client(transport(server)) as client:
        result = await client.call_tool("exec", {"command": command})
        print(result.structured_content["stdout"], end="")


if __name__ == "__main__":
    (named,) = json.loads(Path(sys.argv[1]).read_text("utf-8"))["mcpServers"].values()
    asyncio.run(main(named, sys.argv[2]))
