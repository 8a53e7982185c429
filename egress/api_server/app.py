"""The application: each operation of the table with its handler, and one shape for every error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from egress import __version__
from egress.api.openapi import openapi_document
from egress.api.operation import Operation
from egress.api.operations import OPERATIONS
from egress.api.schema import Problem
from egress.api_server.agent_sandbox import agent_sandbox_routes
from egress.api_server.archives import get_archive, put_archive
from egress.api_server.bridge import bridge_routes
from egress.api_server.call import (
    ApiCall,
    ApiContext,
    BlockingHandler,
    StreamHandler,
    answer_with,
    json_response,
    problem_from,
    problem_response,
    read_call,
    read_operation_query,
)
from egress.api_server.claim_routes import claim_routes
from egress.api_server.command_events import EVENT_STREAM
from egress.api_server.exec_over_http import serve_exec
from egress.api_server.exec_over_websocket import serve_exec_stream
from egress.api_server.file_watch_events import watch_path
from egress.api_server.files import FILE_CALLS, get_file, head_file, put_file
from egress.api_server.git_calls import clone
from egress.api_server.health import is_proxy_ready
from egress.api_server.log_calls import LOG_STREAMS
from egress.api_server.policy_calls import POLICY_CALLS
from egress.api_server.port_over_websocket import serve_port_stream
from egress.api_server.processes import PROCESS_CALLS, PROCESS_STREAMS
from egress.api_server.progress_events import progress_response
from egress.api_server.rules_calls import RULES_CALLS
from egress.api_server.sandbox_events import follow_events
from egress.api_server.sandboxes import SANDBOX_CALLS
from egress.api_server.sessions import SESSION_CALLS, exec_in_session
from egress.api_server.terminal_over_websocket import serve_terminal


async def _openapi(call: ApiCall, _: Request) -> Response:
    document = openapi_document(__version__, is_owner=call.context.is_owner_only)
    return Response(msgspec.json.encode(document), media_type="application/json")


async def _probe(call: ApiCall, _: Request) -> Response:
    folder = call.fleet.about.runtime_dir
    is_ready = await call.context.health.is_ready(lambda: call.context.in_thread(is_proxy_ready, folder))
    return Response(status_code=HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)


BLOCKING_CALLS: dict[str, BlockingHandler] = {
    **SANDBOX_CALLS,
    **FILE_CALLS,
    **PROCESS_CALLS,
    **POLICY_CALLS,
    **RULES_CALLS,
    **SESSION_CALLS,
}
STREAM_CALLS: dict[str, StreamHandler] = {
    **PROCESS_STREAMS,
    **LOG_STREAMS,
    "exec": serve_exec,
    "exec_in_session": exec_in_session,
    "put_archive": put_archive,
    "get_archive": get_archive,
    "head_file": head_file,
    "get_file": get_file,
    "put_file": put_file,
    "watch": watch_path,
    "clone": clone,
    "events": follow_events,
    "openapi": _openapi,
    "probe": _probe,
}
WEBSOCKET_CALLS: dict[str, Callable[[ApiCall, WebSocket], Awaitable[None]]] = {
    "exec_stream": serve_exec_stream,
    "dial": serve_port_stream,
    "attach_terminal": serve_terminal,
}


def make_app(context: ApiContext) -> Starlette:
    """Build the application for one server."""
    routes: list[Route | WebSocketRoute] = []
    for operation in OPERATIONS.values():
        if operation.owner_only and not context.is_owner_only:
            continue
        if operation.name in WEBSOCKET_CALLS:
            routes.append(WebSocketRoute(operation.path, _websocket_endpoint(context, operation)))
        else:
            endpoint = _endpoint(context, operation)
            routes.append(Route(operation.path, endpoint, methods=[operation.method], name=operation.name))
    if not context.is_owner_only:
        routes += bridge_routes(context)
        routes += agent_sandbox_routes(context)
        routes += claim_routes(context)
    # Paths are compared as they are: a redirect would repeat a request that has a body.
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    app.router.redirect_slashes = False
    return app


def _endpoint(context: ApiContext, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return await answer_with(_answer(context, operation, request), problem_response)

    return answer


async def _answer(context: ApiContext, operation: Operation, request: Request) -> Response:
    call = await read_call(context, operation, request)
    if operation.name in STREAM_CALLS:
        return await STREAM_CALLS[operation.name](call, request)
    handler = BLOCKING_CALLS[operation.name]
    if operation.can_follow and EVENT_STREAM in request.headers.get("accept", ""):
        return progress_response(lambda: _value(context, handler, call))
    return _response(operation, await context.in_thread(handler, call))


async def _value(context: ApiContext, handler: BlockingHandler, call: ApiCall) -> msgspec.Struct | None:
    found = await context.in_thread(handler, call)
    return found[1] if isinstance(found, tuple) else found


def _response(operation: Operation, found: msgspec.Struct | tuple[int, msgspec.Struct] | None) -> Response:
    if found is None:
        return Response(status_code=operation.usual_status)
    status, value = found if isinstance(found, tuple) else (operation.usual_status, found)
    return json_response(value, status)


def _websocket_endpoint(context: ApiContext, operation: Operation) -> Callable[[WebSocket], Awaitable[None]]:
    async def serve(websocket: WebSocket) -> None:
        try:
            query = read_operation_query(operation, websocket)
            call = ApiCall(context, websocket.path_params, query, None, websocket)
            await WEBSOCKET_CALLS[operation.name](call, websocket)
        except WebSocketDisconnect:
            # The client has left: nothing can be said to it.
            return
        except Exception as error:  # noqa: BLE001 - a mistake in one call must not end the connection
            # Before the handshake the problem is the answer; a stream tells its own problems.
            if websocket.application_state is WebSocketState.CONNECTING:
                await websocket.send_denial_response(problem_response(problem_from(error)))
            else:
                problem_from(error)

    return serve


async def _refused(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.INTERNAL_SERVER_ERROR
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return problem_response(
            Problem(
                type="api.method", message="the path has no call of this method", hint="see /v1/openapi.json"
            )
        )
    return problem_response(
        Problem(type="api.not_found", message="no call has this path", hint="see /v1/openapi.json")
    )
