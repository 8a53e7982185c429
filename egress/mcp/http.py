"""The protocol over HTTP: each message of a client is a POST, answered with JSON or with events.

The guard of the API's port stands in front, and checks host, origin and token. A client with a handshake gets
the id of a session; one without says everything in each request. A client that closes the connection of a
call ends its command: there is no way to fetch the answer later.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Final, override

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from egress.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_MESSAGE_BYTES,
    METHOD_NOT_FOUND,
    RpcError,
    RpcNotification,
    RpcReply,
    RpcRequest,
    error_message,
    read_message,
)
from egress.mcp.peer import McpPeer, ToolBox
from egress.mcp.versions import (
    HANDSHAKE_VERSIONS,
    UNSUPPORTED_VERSION,
    check_envelope_version,
    envelope_version,
    has_envelope,
)

PATH: Final = "/mcp"
MAX_SESSIONS: Final = 64
HEADER_MISMATCH: Final = -32020
_SESSION_HEADER: Final = "mcp-session-id"
_VERSION_HEADER: Final = "mcp-protocol-version"
_METHOD_HEADER: Final = "mcp-method"
_NAME_HEADER: Final = "mcp-name"
_ROUTING_HEADERS: Final = (_VERSION_HEADER, _METHOD_HEADER, _NAME_HEADER, _SESSION_HEADER)
_PULSE_INTERVAL: Final = 15.0
"""Seconds between two lines that show a client that the connection lives."""
_MAX_WAITING_EVENTS: Final = 64
_STATUS_BY_CODE: Final[Mapping[int, int]] = {
    METHOD_NOT_FOUND: HTTPStatus.NOT_FOUND,
    INVALID_PARAMS: HTTPStatus.BAD_REQUEST,
    HEADER_MISMATCH: HTTPStatus.BAD_REQUEST,
    UNSUPPORTED_VERSION: HTTPStatus.BAD_REQUEST,
}
"""Of errors that are found before a request without a handshake is answered."""


def make_mcp_app(tools: ToolBox) -> Starlette:
    """Build the application. It checks no token: the guard in front of it does."""
    server = _McpServer(tools)
    app = Starlette(
        routes=[
            Route(PATH, server.post, methods=["POST"]),
            Route(PATH, server.delete, methods=["DELETE"]),
        ]
    )
    app.router.redirect_slashes = False
    return app


class _HttpRefusalError(Exception):
    """A request that is refused before its message is taken."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class _McpServer:
    def __init__(self, tools: ToolBox) -> None:
        self._tools = tools
        self._sessions: dict[str, McpPeer] = {}
        """By their ids; the last one used is the last one here."""

    async def post(self, request: Request) -> Response:
        try:
            _check_headers(request)
            message = read_message(await _read_body(request))
            if _is_without_handshake(request, message):
                return await self._serve_envelope(request, message)
            return await self._serve_session(request, message)
        except ClientDisconnect:
            # Nobody reads the answer.
            return Response(status_code=HTTPStatus.BAD_REQUEST)
        except RpcError as error:
            status = _STATUS_BY_CODE.get(error.code, HTTPStatus.BAD_REQUEST)
            return _json(error_message(error), status)
        except _HttpRefusalError as refusal:
            return _json(error_message(RpcError(INVALID_REQUEST, refusal.message)), refusal.status)

    async def delete(self, request: Request) -> Response:
        try:
            found, peer = self._session(request)
        except _HttpRefusalError as refusal:
            return _json(error_message(RpcError(INVALID_REQUEST, refusal.message)), refusal.status)
        del self._sessions[found]
        await peer.end()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    # Clients without a handshake

    async def _serve_envelope(
        self, request: Request, message: RpcRequest | RpcNotification | RpcReply
    ) -> Response:
        if not isinstance(message, RpcRequest):
            # Such a client has nothing to notify of over HTTP. It cancels by closing a connection.
            check_envelope_version(request.headers.get(_VERSION_HEADER, ""))
            return Response(status_code=HTTPStatus.ACCEPTED)
        try:
            _check_routing(request, message)
            envelope_version(message.params)
        except RpcError as error:
            error.request_id = message.request_id
            raise
        return await _answered(McpPeer(self._tools), message)

    # Clients with one

    async def _serve_session(
        self, request: Request, message: RpcRequest | RpcNotification | RpcReply
    ) -> Response:
        if isinstance(message, RpcRequest) and message.method == "initialize":
            peer = McpPeer(self._tools)
            response = await _answered(peer, message)
            if peer.has_agreed:
                response.headers[_SESSION_HEADER] = self._add(peer)
            return response
        _, peer = self._session(request)
        version = request.headers.get(_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_VERSIONS:
            raise _HttpRefusalError(HTTPStatus.BAD_REQUEST, "the version of the protocol is not supported")
        if isinstance(message, RpcRequest):
            return await _answered(peer, message)
        if isinstance(message, RpcNotification):
            peer.hear(message)
        return Response(status_code=HTTPStatus.ACCEPTED)

    def _session(self, request: Request) -> tuple[str, McpPeer]:
        """Return the session of a request, which is the last one used from now on."""
        asked = request.headers.get(_SESSION_HEADER)
        if asked is None:
            raise _HttpRefusalError(
                HTTPStatus.BAD_REQUEST, "send `initialize` first, and then the Mcp-Session-Id of its answer"
            )
        peer = self._sessions.pop(asked, None)
        if peer is None:
            raise _HttpRefusalError(HTTPStatus.NOT_FOUND, "no session has this id: send `initialize` again")
        self._sessions[asked] = peer
        return asked, peer

    def _add(self, peer: McpPeer) -> str:
        if len(self._sessions) >= MAX_SESSIONS:
            # The one that was used least recently: its client learns of it, and begins again.
            idle = next((each for each, known in self._sessions.items() if not known.is_busy), None)
            if idle is None:
                raise _HttpRefusalError(HTTPStatus.SERVICE_UNAVAILABLE, "all sessions are busy: wait for one")
            del self._sessions[idle]
        made = secrets.token_urlsafe(24)
        self._sessions[made] = peer
        return made


async def _answered(peer: McpPeer, message: RpcRequest) -> Response:
    if message.method == "tools/call":
        return _CallResponse(peer, message)
    answering = peer.start(message, _drop)
    answer = await answering
    status = HTTPStatus.OK
    if has_envelope(message.params) and message.method not in ("server/discover", "tools/list"):
        status = HTTPStatus.NOT_FOUND
    return _json(answer, status)


def _drop(_: bytes) -> None:
    """Nobody hears of the progress of a request that is answered at once."""


class _CallResponse(StreamingResponse):
    """The events of one call. It ends with the response, also with one that never began."""

    def __init__(self, peer: McpPeer, message: RpcRequest) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(maxsize=_MAX_WAITING_EVENTS)
        self._answering = peer.start(message, self._tell)
        headers = {"cache-control": "no-cache, no-transform"}
        super().__init__(self._events(), media_type="text/event-stream", headers=headers)

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answering.cancel()

    def _tell(self, message: bytes) -> None:
        if not self._queue.full():
            self._queue.put_nowait(message)

    async def _events(self) -> AsyncIterator[bytes]:
        waiting = asyncio.ensure_future(self._queue.get())
        try:
            while True:
                await asyncio.wait(
                    (waiting, self._answering),
                    timeout=_PULSE_INTERVAL,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if waiting.done():
                    yield _event(waiting.result())
                    waiting = asyncio.ensure_future(self._queue.get())
                elif self._answering.done():
                    break
                else:
                    yield b": alive\n\n"
            # One that was cancelled has no answer.
            if not self._answering.cancelled():
                yield _event(self._answering.result())
        finally:
            waiting.cancel()


def _event(message: bytes) -> bytes:
    return b"event: message\ndata: %s\n\n" % message


def _json(body: bytes, status: int) -> Response:
    return Response(body, status, media_type="application/json")


# Checks of a request ------------------------------------------------------------------------------


def _check_headers(request: Request) -> None:
    """Refuse a request whose headers do not fit, or stand twice."""
    for name in _ROUTING_HEADERS:
        if len(request.headers.getlist(name)) > 1:
            raise RpcError(HEADER_MISMATCH, f"the header {name} stands twice")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _HttpRefusalError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the content is not application/json")
    wanted = request.headers.get("accept", "").lower().split(",")
    accepted = {each.partition(";")[0].strip() for each in wanted}
    if "*/*" not in accepted and not {"application/json", "text/event-stream"} <= accepted:
        raise _HttpRefusalError(
            HTTPStatus.NOT_ACCEPTABLE, "the client must accept application/json and text/event-stream"
        )


async def _read_body(request: Request) -> bytes:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_MESSAGE_BYTES:
            raise _HttpRefusalError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the message has more than {MAX_MESSAGE_BYTES} bytes"
            )
    return bytes(data)


def _is_without_handshake(request: Request, message: RpcRequest | RpcNotification | RpcReply) -> bool:
    """Return whether the client has no handshake: its request says its version, or its header such a one."""
    if isinstance(message, RpcRequest):
        if message.method == "initialize":
            return False
        if has_envelope(message.params):
            return True
    version = request.headers.get(_VERSION_HEADER)
    is_newer = version is not None and version not in HANDSHAKE_VERSIONS
    return is_newer and _SESSION_HEADER not in request.headers


def _check_routing(request: Request, message: RpcRequest) -> None:
    """Refuse a request whose headers say something else than its message. Raises `RpcError`."""
    meta = message.params.get("_meta")
    said = meta.get("io.modelcontextprotocol/protocolVersion") if isinstance(meta, dict) else None
    if said is not None and request.headers.get(_VERSION_HEADER) != said:
        raise RpcError(HEADER_MISMATCH, "MCP-Protocol-Version differs from the version in the message")
    if request.headers.get(_METHOD_HEADER) != message.method:
        raise RpcError(HEADER_MISMATCH, "Mcp-Method differs from the method in the message")
    if message.method == "tools/call":
        name = message.params.get("name")
        if isinstance(name, str) and _decoded(request.headers.get(_NAME_HEADER, "")) != name:
            raise RpcError(HEADER_MISMATCH, "Mcp-Name differs from the name in the message")


def _decoded(value: str) -> str | None:
    """Return the text of a header, which may be written in base64; None if malformed."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None
