"""The calls that a client of agent-sandbox makes to a sandbox: commands and files.

The client takes this server for a router, and names the sandbox in headers. The address of a pod that it
sends beside is not used: it would let a client choose where its request goes. Errors are those of the API.

A path is one that the client may write in four calls. All of them read it alike: below the workspace, also
with a slash in front, which the client itself removes in two of them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Final, Literal
from urllib.parse import unquote_to_bytes

from msgspec import UNSET, Meta, Struct, UnsetType, json
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from egress.api.schema import ApiRequest
from egress.api_server.call import (
    ApiCall,
    ApiContext,
    UnfitRequestError,
    answer_with,
    json_response,
    json_text,
    problem_response,
    read_body,
)
from egress.api_server.claimed_sandboxes import DEFAULT_NAMESPACE, find_sandbox
from egress.api_server.exec_over_http import MAX_OUTPUT_BYTES, run_to_end
from egress.api_server.files import OCTET_STREAM, file_pieces, write_file
from egress.api_server.upload_form import UploadForm
from egress.runtime.protocol import NO_OUTPUT
from egress.runtime.spec import NAME_PATTERN, Command
from egress.sandbox import options
from egress.sandbox.file_stream import FileReader
from egress.sandbox.files import Files
from egress.sandbox.folder_list import FolderEntry, list_folder

type Handler = Callable[[ApiCall, Request], Awaitable[Response]]

SERVER_PORT: Final = "8888"
"""The port that the client names unless it was told another one."""
USUAL_TIMEOUT: Final = 300.0
MAX_TIMEOUT: Final = 24 * 3600.0
_GRACE_SECONDS: Final = 1.0
_SECONDS_PATTERN: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_CUT_NOTE: Final = "\negress: the output was cut after {} bytes\n"


class ExecuteRequest(ApiRequest, frozen=True):
    """A line for a shell."""

    command: Annotated[str, Meta(min_length=1)]
    timeout_seconds: Annotated[float, Meta(gt=0, le=MAX_TIMEOUT)] | None = None


class ExecuteResult(Struct, frozen=True):
    """The end of a command."""

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool


class ListedFile(Struct, frozen=True):
    """An entry of a folder. The client knows no other types."""

    name: str
    size: int
    type: Literal["file", "directory"]
    mod_time: float


class FoundPath(Struct, frozen=True):
    """Whether a path exists."""

    path: str
    exists: bool


class RuntimeMessage(Struct, frozen=True):
    """The answer of calls that have no other."""

    message: str
    status: str | UnsetType = UNSET


async def _health(_call: ApiCall, _: Request) -> Response:
    return json_response(RuntimeMessage("the sandbox takes commands", "ok"))


async def _execute(call: ApiCall, request: Request) -> Response:
    asked = await read_body(ExecuteRequest, request)
    command = Command(
        argv=options.command_words(asked.command),
        timeout=asked.timeout_seconds or _client_timeout(request),
        grace=_GRACE_SECONDS,
        input=b"",
        most_output=MAX_OUTPUT_BYTES,
    )
    process = await call.context.in_thread(call.fleet.spawn, call.name, command, NO_OUTPUT)
    result = await run_to_end(call, request, process)
    # The client knows no field for it, and must not take a part of the output for all of it.
    note = _CUT_NOTE.format(MAX_OUTPUT_BYTES) if result.truncated else ""
    return json_response(
        ExecuteResult(result.stdout, result.stderr + note, result.exit_code, result.timed_out)
    )


def _client_timeout(request: Request) -> float:
    """Return the seconds after which the client gives up, since nobody needs the command then."""
    text = _header(request, "x-sandbox-timeout")
    if text is None:
        return USUAL_TIMEOUT
    seconds = float(text) if _SECONDS_PATTERN.fullmatch(text) else 0.0
    if not 0 < seconds <= MAX_TIMEOUT:
        raise UnfitRequestError("X-Sandbox-Timeout is out of range", f"send 1 to {MAX_TIMEOUT:g} seconds")
    return seconds


async def _upload(call: ApiCall, request: Request) -> Response:
    form = UploadForm(_header(request, "content-type") or "")
    pieces = _pieces(form, request)
    # The first piece comes with the head, which names the path.
    first = await anext(pieces)

    async def content() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    path = _in_workspace(form.path or "")
    await write_file(call, path, content())
    return json_response(RuntimeMessage(f"the file {path} was written"))


async def _pieces(form: UploadForm, request: Request) -> AsyncIterator[bytes]:
    is_named = False
    async for data in request.stream():
        piece = form.feed(data)
        if form.path is not None and (piece or not is_named):
            is_named = True
            yield piece
    form.finish()


async def _download(call: ApiCall, request: Request) -> Response:
    path = _path_behind("/download/", request)
    # Opened before the answer begins, so that a path that does not exist is an error and no empty file.
    reader = await call.context.waiting(FileReader, call.place, path)
    await call.context.in_thread(reader.begin, 0, reader.size)
    headers = {"content-length": str(reader.size)}
    return StreamingResponse(file_pieces(call, reader), headers=headers, media_type=OCTET_STREAM)


async def _list(call: ApiCall, request: Request) -> Response:
    path = _path_behind("/list/", request)
    found = await call.context.in_thread(list_folder, call.place, path)
    return Response(json.encode([_listed(each) for each in found]), media_type="application/json")


def _listed(entry: FolderEntry) -> ListedFile:
    kind: Literal["file", "directory"] = "directory" if entry.facts.is_folder else "file"
    return ListedFile(json_text(entry.name), entry.facts.size, kind, entry.facts.modified.timestamp())


async def _exists(call: ApiCall, request: Request) -> Response:
    path = _path_behind("/exists/", request)
    return json_response(FoundPath(path, await call.context.in_thread(Files(call.place).exists, path)))


_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("GET", "/"): _health,
    ("POST", "/execute"): _execute,
    ("POST", "/upload"): _upload,
    ("GET", "/download/{path:path}"): _download,
    ("GET", "/list/{path:path}"): _list,
    ("GET", "/exists/{path:path}"): _exists,
}


def agent_sandbox_routes(context: ApiContext) -> list[Route]:
    """Return the routes of these calls."""
    return [
        Route(path, _endpoint(context, handler), methods=[method])
        for (method, path), handler in _HANDLERS.items()
    ]


def _endpoint(context: ApiContext, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return await answer_with(_answer(context, handler, request), problem_response)

    return answer


async def _answer(context: ApiContext, handler: Handler, request: Request) -> Response:
    if request.url.query:
        raise UnfitRequestError("this call takes no query", "remove it")
    call = ApiCall(context, {"name": _named_sandbox(request)}, None, None, request)
    namespace = _header(request, "x-sandbox-namespace") or DEFAULT_NAMESPACE
    # Before anything is read or run: a sandbox of somebody else is not found, whatever the call.
    await context.in_thread(find_sandbox, context.fleet, call.name, namespace)
    return await handler(call, request)


def _named_sandbox(request: Request) -> str:
    name = _header(request, "x-sandbox-id")
    if name is None or not NAME_PATTERN.fullmatch(name):
        raise UnfitRequestError("X-Sandbox-ID names no sandbox", "send its name there")
    port = _header(request, "x-sandbox-port")
    if port not in (None, SERVER_PORT):
        raise UnfitRequestError(
            f"X-Sandbox-Port is not {SERVER_PORT}",
            f"leave server_port at {SERVER_PORT}: other ports of a sandbox are reached by the API",
        )
    return name


def _header(request: Request, name: str) -> str | None:
    found = request.headers.getlist(name)
    if len(found) > 1:
        raise UnfitRequestError(f"{name} is sent twice", "send it once")
    return found[0] if found else None


def _path_behind(call: str, request: Request) -> str:
    """Return the path in the target of a request, which is decoded here once and strictly."""
    raw: bytes = request.scope["raw_path"].partition(b"?")[0]
    text = raw.removeprefix(call.encode())
    if re.search(rb"%(?![0-9A-Fa-f]{2})", text):
        raise UnfitRequestError("the path holds a % that encodes nothing", "encode it as %25")
    try:
        return _in_workspace(unquote_to_bytes(text).decode("utf-8"))
    except UnicodeDecodeError:
        raise UnfitRequestError("the path is not UTF-8", "rename the file by a command") from None


def _in_workspace(path: str) -> str:
    if not path.isprintable():
        raise UnfitRequestError("the path holds a control character", "rename the file by a command")
    return path.lstrip("/") or "."
