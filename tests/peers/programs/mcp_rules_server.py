"""A server of MCP by the `mcp` package, unchanged, at a port of loopback.

    python mcp_rules_server.py PORT json|events

Prints a line when it listens. Its tools say what they were called with.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, ListRoots, MCPServer, Resolve
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ListRootsResult


def ask_roots() -> ListRoots:
    return ListRoots()


async def search_issues(query: str, ctx: Context) -> str:
    """Find issues."""
    await ctx.report_progress(1, 2)
    return f"found {query}"


def create_issue(repo: str, labels: list[str]) -> dict[str, Any]:
    """Open an issue."""
    return {"repo": repo, "labels": labels}


def delete_repo(repo: str) -> str:
    """Delete a repository."""
    return f"deleted {repo}"


def count_roots(roots: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Ask the client for its roots, in the way of its revision."""
    return str(len(roots.roots))


def app() -> str:
    """The application."""
    return "app"


def readme(owner: str) -> str:
    """The text about a repository."""
    return owner


def review(path: str) -> str:
    """Review a file."""
    return f"review {path}"


def release() -> str:
    """Release it."""
    return "release"


def made() -> MCPServer:
    server = MCPServer("issues")
    for tool in (search_issues, create_issue, delete_repo, count_roots):
        server.add_tool(tool)
    for address in ("repo://acme/app", "repo://other/app"):
        server.resource(address)(app)
    server.resource("repo://{owner}/readme")(readme)
    for prompt in (review, release):
        server.prompt()(prompt)
    return server


async def main(port: str, form: str) -> None:
    application = made().streamable_http_app(
        json_response=form == "json",
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            print("listening", flush=True)

    await Announced(uvicorn.Config(application, "127.0.0.1", int(port), log_level="error")).serve()


asyncio.run(main(*sys.argv[1:]))
