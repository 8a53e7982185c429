"""Tools that show ports of the sandbox to the browser of the user."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from egress.mcp.command_tools import NoArguments
from egress.mcp.tool import Tool, ToolArguments, ToolCall, ToolResult

type Port = Annotated[
    int, Meta(ge=1, le=65535, description="A port that a program in the sandbox listens on.")
]


class PortArguments(ToolArguments, frozen=True):
    port: Port


class PreviewOutcome(ToolResult, frozen=True):
    port: int
    url: Annotated[str, Meta(description="The address for the browser of the user. It holds a token.")]


class PreviewsOutcome(ToolResult, frozen=True):
    previews: tuple[PreviewOutcome, ...]


class PortOutcome(ToolResult, frozen=True):
    port: int


def _expose(call: ToolCall) -> PreviewOutcome:
    asked: PortArguments = call.arguments
    return PreviewOutcome(port=asked.port, url=call.sandbox.expose(asked.port))


def _list(call: ToolCall) -> PreviewsOutcome:
    found = call.sandbox.previews()
    return PreviewsOutcome(previews=tuple(PreviewOutcome(port=each.port, url=each.url) for each in found))


def _unexpose(call: ToolCall) -> PortOutcome:
    asked: PortArguments = call.arguments
    call.sandbox.unexpose(asked.port)
    return PortOutcome(port=asked.port)


PREVIEW_TOOLS: Final = (
    Tool(
        name="expose_port",
        title="Show a port",
        description="Make a web server of the sandbox visible to the user, and return its address.",
        arguments=PortArguments,
        result=PreviewOutcome,
        run=_expose,
        is_idempotent=True,
    ),
    Tool(
        name="list_previews",
        title="List the shown ports",
        description="List the ports that the user can see, with their addresses.",
        arguments=NoArguments,
        result=PreviewsOutcome,
        run=_list,
        reads_only=True,
    ),
    Tool(
        name="unexpose_port",
        title="Hide a port",
        description="Hide a port of the sandbox that the user can see.",
        arguments=PortArguments,
        result=PortOutcome,
        run=_unexpose,
        is_idempotent=True,
    ),
)
