"""The bridge: the protocol of the Cloudflare sandbox client of the OpenAI Agents SDK, over this fleet.

It is a second door onto the same calls, at the port of the API and behind its token. The client names no
image and no profile, so the image is that of `egress up`, and the profile may stand in the URL:
`http://host:port/profiles/NAME` in place of `http://host:port`. Every request but `running` and `DELETE`
brings a sandbox back that is gone, as the client expects.
"""

from __future__ import annotations

import base64
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated, BinaryIO, Final

from msgspec import Meta, Struct
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from egress.api.schema import ApiRequest, FileWriteQuery, PathQuery, Problem, Text
from egress.api_server.archives import put_archive, stream_archive
from egress.api_server.bridge_archive import read_excludes, write_portable
from egress.api_server.bridge_file_response import file_response
from egress.api_server.bridge_sandboxes import is_running, make_ready, random_id, remove, sandbox_name
from egress.api_server.bridge_terminal import READY, TerminalForm, TerminalQuery
from egress.api_server.call import (
    STATUS_BY_CODE,
    ApiCall,
    ApiContext,
    answer_with,
    json_response,
    problem_from,
    read_body,
    read_query,
)
from egress.api_server.command_events import CommandEvents, CommandEventsResponse, event, event_line
from egress.api_server.exec_over_websocket import serve_stream
from egress.api_server.files import file_pieces, put_file
from egress.runtime.errors import UnsupportedError
from egress.runtime.spec import WORKSPACE, Command, ExecResult
from egress.sandbox.file_stream import FileReader

type Handler = Callable[[ApiCall, Request], Awaitable[Response]]

_SANDBOXES: Final = "/v1/sandbox"
_PREFIXES: Final = ("", "/profiles/{profile}")
_GRACE_SECONDS: Final = 1.0
"""Between SIGTERM and SIGKILL. The client gives up five seconds after the timeout."""
_SLACK_SECONDS: Final = 2.0
"""Of those five seconds, the part in which the sandbox may be created without shortening the command."""
_MIN_TIMEOUT: Final = 0.001
_NO_BUCKETS: Final = UnsupportedError(
    "this bridge mounts no buckets",
    "copy files into the workspace, or let commands reach the bucket over HTTPS by a rule",
)


class BridgeCommand(ApiRequest, frozen=True):
    """A command of the client."""

    argv: tuple[str, ...]
    timeout_ms: Annotated[int, Meta(ge=0)] | None = None
    cwd: Text | None = None


class PersistQuery(ApiRequest, frozen=True):
    """The paths that an archive leaves out, with commas between them."""

    excludes: str = ""


class BridgeSandbox(Struct, frozen=True):
    """The id of a sandbox."""

    id: str


class BridgeState(Struct, frozen=True):
    """Whether a sandbox exists with its files."""

    running: bool


class BridgeSuccess(Struct, frozen=True):
    """The answer of calls that have no other."""

    ok: bool = True


class BridgeError(Struct, frozen=True):
    """The shape of every error of the bridge."""

    error: str
    code: str


# The client takes exactly the status 200 for success wherever something is created or written.


async def _create(call: ApiCall, _: Request) -> Response:
    await call.context.in_thread(make_ready, call)
    return json_response(BridgeSandbox(call.parts["id"]))


async def _running(call: ApiCall, _: Request) -> Response:
    return json_response(BridgeState(await call.context.in_thread(is_running, call)))


async def _delete(call: ApiCall, _: Request) -> Response:
    await call.context.in_thread(remove, call)
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _exec(call: ApiCall, request: Request) -> Response:
    began = time.monotonic()
    asked = await read_body(BridgeCommand, request)
    await call.context.in_thread(make_ready, call)
    timeout = None
    if asked.timeout_ms is not None:
        wanted = asked.timeout_ms / 1000
        left = wanted + _SLACK_SECONDS - (time.monotonic() - began)
        timeout = max(_MIN_TIMEOUT, min(wanted, left))
    command = Command(
        argv=asked.argv, cwd=asked.cwd, timeout=timeout, grace=_GRACE_SECONDS, input=b"", most_output=0
    )
    events = CommandEvents(call, _BridgeEvents())
    await events.start(lambda output: call.context.in_thread(call.fleet.spawn, call.name, command, output))
    return CommandEventsResponse(events)


class _BridgeEvents:
    """The events of the bridge: `stdout`, `stderr`, then `exit` or `error`."""

    def piece(self, name: str, data: bytes) -> bytes:
        return event_line(name, base64.b64encode(data))

    def end(self, result: ExecResult) -> Iterator[bytes]:
        yield event("exit", {"exit_code": result.exit_code})

    def failure(self, problem: Problem) -> bytes:
        return event("error", _bridge_error(problem))


async def _read_file(call: ApiCall, _: Request) -> Response:
    await call.context.in_thread(make_ready, call)
    # Opened before the answer begins, so that a path that does not exist is an error and no empty file.
    reader = await call.context.waiting(FileReader, call.place, f"/{call.parts['path']}")
    await call.context.in_thread(reader.begin, 0, reader.size)
    return await file_response(file_pieces(call, reader), reader.size)


async def _write_file(call: ApiCall, request: Request) -> Response:
    await call.context.in_thread(make_ready, call)
    await put_file(call.with_query(FileWriteQuery(path=f"/{call.parts['path']}")), request)
    return json_response(BridgeSuccess())


async def _persist(call: ApiCall, request: Request) -> Response:
    excludes = read_excludes(read_query(PersistQuery, request).excludes)
    await call.context.in_thread(make_ready, call)

    return await stream_archive(call, _open_portable(call, excludes))


@contextmanager
def _open_portable(call: ApiCall, excludes: Collection[str]) -> Iterator[BinaryIO]:
    with call.fleet.get(call.name, WORKSPACE) as source, tempfile.TemporaryFile() as target:
        write_portable(source, target, excludes)
        target.seek(0)
        yield target


async def _hydrate(call: ApiCall, request: Request) -> Response:
    await call.context.in_thread(make_ready, call)
    await put_archive(call.with_query(PathQuery(path=WORKSPACE)), request)
    return json_response(BridgeSuccess())


async def _refuse_bucket(_call: ApiCall, _: Request) -> Response:
    # The body may hold the keys of the bucket. It is not read.
    raise _NO_BUCKETS


_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", ""): _create,
    ("DELETE", "/{id}"): _delete,
    ("GET", "/{id}/running"): _running,
    ("POST", "/{id}/exec"): _exec,
    ("GET", "/{id}/file/{path:path}"): _read_file,
    ("PUT", "/{id}/file/{path:path}"): _write_file,
    ("POST", "/{id}/persist"): _persist,
    ("POST", "/{id}/hydrate"): _hydrate,
    ("POST", "/{id}/mount"): _refuse_bucket,
    ("POST", "/{id}/unmount"): _refuse_bucket,
}
"""By method, and by path below `/v1/sandbox`."""


async def _serve_terminal(call: ApiCall, websocket: WebSocket) -> None:
    query = read_query(TerminalQuery, websocket)
    await call.context.in_thread(make_ready, call)
    await websocket.accept()
    await websocket.send_text(READY)
    await serve_stream(call, websocket, TerminalForm(query))


def bridge_routes(context: ApiContext) -> list[Route | WebSocketRoute]:
    """Return the routes of the bridge."""
    made: list[Route | WebSocketRoute] = []
    for prefix in _PREFIXES:
        for (method, path), handler in _HANDLERS.items():
            made.append(Route(f"{prefix}{_SANDBOXES}{path}", _endpoint(context, handler), methods=[method]))
        made.append(WebSocketRoute(f"{prefix}{_SANDBOXES}/{{id}}/pty", _terminal_endpoint(context)))
    return made


def _call(context: ApiContext, request: HTTPConnection) -> ApiCall:
    bridge_id = request.path_params.get("id") or random_id()
    parts = {**request.path_params, "id": bridge_id, "name": sandbox_name(bridge_id)}
    return ApiCall(context, parts, None, None, request)


def _endpoint(context: ApiContext, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        async def work() -> Response:
            return await handler(_call(context, request), request)

        return await answer_with(work(), _error_response)

    return answer


def _terminal_endpoint(context: ApiContext) -> Callable[[WebSocket], Awaitable[None]]:
    async def serve(websocket: WebSocket) -> None:
        try:
            await _serve_terminal(_call(context, websocket), websocket)
        except WebSocketDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - a mistake in one call must not end the connection
            response = _error_response(problem_from(error))
            if websocket.application_state is WebSocketState.CONNECTING:
                await websocket.send_denial_response(response)

    return serve


def _error_response(problem: Problem) -> Response:
    status = STATUS_BY_CODE.get(problem.type, HTTPStatus.INTERNAL_SERVER_ERROR)
    return json_response(_bridge_error(problem), status)


def _bridge_error(problem: Problem) -> BridgeError:
    hint = f" ({problem.hint})" if problem.hint else ""
    return BridgeError(error=f"{problem.message}{hint}", code=problem.type)
