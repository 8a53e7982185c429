"""A sandbox of real shells and files, its tools, and one client that says whatever a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from egress.fleet import Fleet
from egress.fleet.protocol import FleetInfo
from egress.mcp.jsonrpc import RpcRequest
from egress.mcp.peer import McpPeer, ToolBox
from egress.mcp.tool import Tool, ToolCall
from egress.runtime.errors import SandboxDiedError
from egress.sandbox.handle import Sandbox
from tests.api_server.file_lab import CommandKeepingRuntime
from tests.fleet.memory_fleet import spec

ENVELOPE: Mapping[str, object] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, slots=True)
class McpLab:
    fleet: Fleet
    runtime: CommandKeepingRuntime
    tools: ToolBox
    workspace: Path

    def run(self, tool: Tool, **arguments: object) -> Any:  # noqa: ANN401 - the result of any tool
        """Run a tool as a client would."""
        return tool.run(ToolCall(self.fleet, Sandbox(self.fleet, "one"), tool.read_arguments(arguments)))


@contextmanager
def mcp_lab(folder: Path) -> Iterator[McpLab]:
    runtime = CommandKeepingRuntime(folder)
    fleet = Fleet(runtime, about=FleetInfo(kind="local"), tick=None)
    try:
        fleet.create(spec())
        fleet.start("one")
        yield McpLab(fleet, runtime, ToolBox(fleet, "one"), folder / "one" / "workspace")
    finally:
        fleet.close()
        for process in runtime.started:
            # Their pipes are closed by threads of theirs, which must not outlive the test.
            process.kill(0)
            with suppress(SandboxDiedError):
                process.wait(30)


def request(method: str, request_id: int | str = 1, /, **params: object) -> RpcRequest:
    return RpcRequest(request_id, method, params)


def called(name: str, request_id: int | str = 1, **arguments: object) -> RpcRequest:
    """A call of a tool."""
    return request("tools/call", request_id, name=name, arguments=arguments, _meta=dict(ENVELOPE))


LASTING: Final = "touch started-$$; exec sleep 600"
"""A command that goes on until it is ended."""


async def until_started(lab: McpLab, count: int = 1) -> None:
    """Wait until so many lasting commands run. One that has only just begun may not hear its end."""
    # The file of a command may be there before the runtime has noted its process.
    while min(len(list(lab.workspace.glob("started-*"))), len(lab.runtime.started)) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def asked(peer: McpPeer, message: RpcRequest, heard: list[bytes] | None = None) -> dict[str, Any]:
    """The answer of a peer."""
    found: dict[str, Any] = json.loads(await peer.start(message, (heard if heard is not None else []).append))
    assert found["id"] == message.request_id
    return found


def tool_named(tools: tuple[Tool, ...], name: str) -> Tool:
    return next(each for each in tools if each.name == name)
