"""One client of the Model Context Protocol: its requests, which run side by side, and their cancellation.

A transport hands messages in and gets answers. A tool that fails is no error of the protocol: its result says
so, for the model that called it to correct itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from egress.api.schema import Problem
from egress.fleet import SandboxFleet
from egress.fleet.api_values import problem_of
from egress.logger import EventLogger
from egress.mcp.command_tools import COMMAND_TOOLS
from egress.mcp.file_tools import FILE_TOOLS
from egress.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RequestId,
    RpcError,
    RpcNotification,
    RpcRequest,
    error_message,
    notification_message,
    result_message,
)
from egress.mcp.preview_tools import PREVIEW_TOOLS
from egress.mcp.tool import Tool, ToolCall
from egress.mcp.versions import (
    CAPABILITIES,
    ENVELOPE_VERSIONS,
    HANDSHAKE_VERSIONS,
    SERVER_INFO,
    agreed_version,
    dressed_result,
    envelope_version,
    has_envelope,
    progress_token,
)
from egress.sandbox.async_bridge import in_thread
from egress.sandbox.handle import Sandbox

_log = EventLogger(__name__)

TOOLS: Final[Mapping[str, Tool]] = {each.name: each for each in (*COMMAND_TOOLS, *FILE_TOOLS, *PREVIEW_TOOLS)}
INSTRUCTIONS: Final = (
    "The tools work in a sandbox, in the folder /workspace. Its network leads through a proxy with rules: a "
    "request that they deny gets a 403 that says why. Credentials are added outside of the sandbox, so "
    "commands need none, and dummies in its variables are meant to be used as they are."
)
MAX_CALLS: Final = 16
"""Calls of tools at a time, of all clients together."""
_PROGRESS_INTERVAL: Final = 1.0

type Tell = Callable[[bytes], None]
"""Sends a notification to the client, or drops it if the client is slow."""


class ToolBox:
    """The tools over one sandbox, for all clients."""

    def __init__(self, fleet: SandboxFleet, name: str) -> None:
        self._fleet = fleet
        self._sandbox = Sandbox(fleet, name)
        self._calls = 0

    async def call(
        self, tool: Tool, given: object, watch: Callable[[ToolCall], None]
    ) -> Mapping[str, object]:
        """Run a tool, and return its result, or its error as a result. Cancelling ends its command."""
        if self._calls >= MAX_CALLS:
            busy = Problem(
                type="request.busy", message=f"{MAX_CALLS} calls are under way", hint="wait for one of them"
            )
            return _failure(busy)
        self._calls += 1
        try:
            call = ToolCall(self._fleet, self._sandbox, tool.read_arguments(given))
            watch(call)
            found = msgspec.to_builtins(await in_thread(tool.run, call))
        except Exception as error:  # noqa: BLE001 - whatever it was, the model is told, and other calls go on
            problem = problem_of(error)
            if problem.type == "fleet.fault":
                _log.error("mcp.failed", error=type(error).__name__, tool=tool.name)
            return _failure(problem)
        finally:
            self._calls -= 1
        text = msgspec.json.encode(found).decode()
        return {"content": _text(text), "structuredContent": found, "isError": False}


def _failure(problem: Problem) -> Mapping[str, object]:
    hint = f"\n{problem.hint}" if problem.hint else ""
    return {"content": _text(f"{problem.type}: {problem.message}{hint}"), "isError": True}


def _text(text: str) -> Sequence[Mapping[str, object]]:
    return [{"type": "text", "text": text}]


class McpPeer:
    """One client, from its first message to its last."""

    def __init__(self, tools: ToolBox) -> None:
        self._tools = tools
        self._version: str | None = None
        self._running: dict[RequestId, asyncio.Task[bytes]] = {}

    @property
    def has_agreed(self) -> bool:
        """Whether the handshake has succeeded."""
        return self._version is not None

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way."""
        return bool(self._running)

    def start(self, request: RpcRequest, tell: Tell) -> asyncio.Task[bytes]:
        """Begin to answer a request. The result is the answer; cancelling the task ends its command.

        Raises `RpcError` for an id that is under way.
        """
        if request.request_id in self._running:
            raise RpcError(
                INVALID_REQUEST, "a request of this id is under way", request_id=request.request_id
            )
        task = asyncio.ensure_future(self._answer(request, tell))
        self._running[request.request_id] = task
        task.add_done_callback(lambda _: self._running.pop(request.request_id, None))
        return task

    def hear(self, notification: RpcNotification) -> None:
        """Take a notification. One that is not known is dropped."""
        if notification.method == "notifications/cancelled":
            found = notification.params.get("requestId")
            task = self._running.get(found) if isinstance(found, int | str) else None
            if task is not None:
                task.cancel()

    async def end(self) -> None:
        """End all requests."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _answer(self, request: RpcRequest, tell: Tell) -> bytes:
        try:
            result = await self._result(request, tell)
        except RpcError as error:
            error.request_id = request.request_id
            return error_message(error)
        return result_message(request.request_id, dressed_result(request, result))

    async def _result(self, request: RpcRequest, tell: Tell) -> Mapping[str, object]:
        method, params = request.method, request.params
        # The version comes first: which other methods there are depends on it.
        if method == "initialize":
            self._version = agreed_version(params.get("protocolVersion"))
            return {
                "protocolVersion": self._version,
                "capabilities": CAPABILITIES,
                "serverInfo": SERVER_INFO,
                "instructions": INSTRUCTIONS,
            }
        if has_envelope(params):
            envelope_version(params)
            if method == "server/discover":
                versions = [*HANDSHAKE_VERSIONS, *ENVELOPE_VERSIONS]
                return {
                    "supportedVersions": versions,
                    "capabilities": CAPABILITIES,
                    "instructions": INSTRUCTIONS,
                }
        elif method == "ping":
            return {}
        elif self._version is None:
            raise RpcError(
                INVALID_REQUEST, "the first request is `initialize`, or says its version in `_meta`"
            )
        match method:
            case "tools/list":
                if params.get("cursor") is not None:
                    raise RpcError(INVALID_PARAMS, "there is one page of tools: leave the cursor out")
                return {"tools": [each.view for each in TOOLS.values()]}
            case "tools/call":
                return await self._call(params, tell)
        raise RpcError(METHOD_NOT_FOUND, "the server has no such method")

    async def _call(self, params: Mapping[str, object], tell: Tell) -> Mapping[str, object]:
        name = params.get("name")
        tool = TOOLS.get(name) if isinstance(name, str) else None
        if tool is None:
            raise RpcError(INVALID_PARAMS, "no tool has this name")
        token = progress_token(params)
        given = params.get("arguments")
        ticking: list[asyncio.Task[None]] = []

        def watch(call: ToolCall) -> None:
            if token is not None:
                ticking.append(asyncio.ensure_future(_tick(call, token, tell)))

        try:
            return await self._tools.call(tool, {} if given is None else given, watch)
        finally:
            for each in ticking:
                each.cancel()


async def _tick(call: ToolCall, token: int | str, tell: Tell) -> None:
    """Tell every second how long a call has taken, and the newest line of its output."""
    began = time.monotonic()
    while True:
        await asyncio.sleep(_PROGRESS_INTERVAL)
        params: dict[str, object] = {"progressToken": token, "progress": round(time.monotonic() - began, 3)}
        if message := call.progress():
            params["message"] = message
        tell(notification_message("notifications/progress", params))
