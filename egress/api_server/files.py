"""Files of a sandbox: read and written as streams, described, listed, renamed and removed.

Every operation is a command of the sandbox's user, whom its kernel limits. Nothing here opens a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from egress.api.schema import (
    FileDeleteQuery,
    FileEntryView,
    FileView,
    FileWriteQuery,
    FolderSettings,
    FolderView,
    PathQuery,
    RenameSettings,
)
from egress.api_server.call import ApiCall, json_text, problem_from, problem_response
from egress.api_server.file_range import UnfitRangeError, choose_part
from egress.sandbox.errors import PathKindError
from egress.sandbox.file_stream import FileReader, FileWriter
from egress.sandbox.files import Files, FileStat
from egress.sandbox.folder_list import list_folder

if TYPE_CHECKING:
    from egress.api_server.call import BlockingHandler

OCTET_STREAM: Final = "application/octet-stream"


async def head_file(call: ApiCall, _: Request) -> Response:
    """Answer with the size of a file. A `Range` header is for GET only."""
    query: PathQuery = call.query
    facts = await call.context.in_thread(Files(call.place).stat, query.path)
    if not facts.is_file:
        raise PathKindError(f"{query.path!r} is not a file", "name a file")
    return Response(headers=_headers(facts.size), media_type=OCTET_STREAM)


async def get_file(call: ApiCall, request: Request) -> Response:
    """Send a file, or a part of it."""
    query: PathQuery = call.query
    # Opened before the answer begins, so that a path that does not exist is an error and no empty file.
    reader = await call.context.waiting(FileReader, call.place, query.path)
    # There are no validators, so a condition on the range never holds, and the whole file is the answer.
    wanted = [] if "if-range" in request.headers else request.headers.getlist("range")
    try:
        part = choose_part(wanted, reader.size)
    except UnfitRangeError as error:
        await call.context.in_thread(reader.close)
        refusal = problem_response(problem_from(error))
        refusal.headers["content-range"] = f"bytes */{reader.size}"
        return refusal
    first, count = part or (0, reader.size)
    await call.context.in_thread(reader.begin, first, count)
    headers = _headers(count)
    if part is not None:
        headers["content-range"] = f"bytes {first}-{first + count - 1}/{reader.size}"
    status = HTTPStatus.OK if part is None else HTTPStatus.PARTIAL_CONTENT
    return StreamingResponse(file_pieces(call, reader), status, headers, OCTET_STREAM)


async def put_file(call: ApiCall, request: Request) -> Response:
    """Write the file that arrives. A request that breaks off leaves nothing."""
    query: FileWriteQuery = call.query
    await write_file(call, query.path, request.stream(), query.mode or "")
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def write_file(call: ApiCall, path: str, pieces: AsyncIterator[bytes], mode: str = "") -> None:
    """Write pieces to a file, which appears as a whole or not at all."""
    writer = await call.context.in_thread(lambda: FileWriter(call.place, path, mode=mode))
    try:
        async for piece in pieces:
            # The last piece of a body is empty.
            if piece:
                await call.context.waiting(writer.write, piece)
        await call.context.waiting(writer.finish)
    except BaseException:
        await asyncio.shield(asyncio.ensure_future(call.context.in_thread(writer.abort)))
        raise


async def file_pieces(call: ApiCall, reader: FileReader) -> AsyncIterator[bytes]:
    """The part of a file that its reader was asked for; the reader is closed at the end."""
    try:
        while piece := await call.context.waiting(reader.read):
            yield piece
    finally:
        await asyncio.shield(asyncio.ensure_future(call.context.in_thread(reader.close)))


def _headers(length: int) -> dict[str, str]:
    return {"content-length": str(length), "accept-ranges": "bytes"}


def _delete(call: ApiCall) -> None:
    query: FileDeleteQuery = call.query
    Files(call.place).remove(query.path, recursive=query.recursive)


def _stat(call: ApiCall) -> FileView:
    query: PathQuery = call.query
    return FileView(path=query.path, **_facts(Files(call.place).stat(query.path)))


def _list(call: ApiCall) -> FolderView:
    query: PathQuery = call.query
    found = list_folder(call.place, query.path)
    entries = (FileEntryView(name=json_text(each.name), **_facts(each.facts)) for each in found)
    return FolderView(path=query.path, entries=tuple(entries))


def _make_folder(call: ApiCall) -> None:
    body: FolderSettings = call.body
    Files(call.place).mkdir(body.path, parents=body.parents)


def _rename(call: ApiCall) -> None:
    body: RenameSettings = call.body
    Files(call.place).rename(body.path, body.target)


def _facts(stat: FileStat) -> dict[str, Any]:
    return {
        "kind": stat.kind,
        "size": stat.size,
        "mode": f"{stat.mode:03o}",
        "modified": stat.modified,
        "is_link": stat.is_link,
    }


FILE_CALLS: dict[str, BlockingHandler] = {
    "delete_file": _delete,
    "stat": _stat,
    "list_folder": _list,
    "make_folder": _make_folder,
    "rename": _rename,
}
"""Handlers by the names of their operations."""
