"""Tools for the files of the sandbox. Every operation runs as its user, whom the kernel limits."""

from __future__ import annotations

import base64
from typing import Annotated, Final, Literal

from msgspec import Meta

from egress.mcp.tool import Tool, ToolArguments, ToolCall, ToolResult, UnfitArgumentsError
from egress.sandbox.file_stream import FileReader
from egress.sandbox.files import Files
from egress.sandbox.folder_list import list_folder

MAX_READ_BYTES: Final = 256 * 1024
_DEFAULT_READ_BYTES: Final = 64 * 1024
_MAX_ENTRIES: Final = 1000

type FilePath = Annotated[
    str,
    Meta(min_length=1, max_length=4096, description="A path; without a slash at its start in /workspace."),
]
type Encoding = Annotated[
    Literal["utf-8", "base64"], Meta(description="base64 for content that is not text.")
]


class ReadArguments(ToolArguments, frozen=True):
    path: FilePath
    offset: Annotated[int, Meta(ge=0, description="The first byte.")] = 0
    limit: Annotated[int, Meta(gt=0, le=MAX_READ_BYTES, description="Bytes to return at most.")] = (
        _DEFAULT_READ_BYTES
    )
    encoding: Encoding = "utf-8"


class ReadOutcome(ToolResult, frozen=True):
    content: str
    size: Annotated[int, Meta(description="Bytes of the whole file.")]
    next_offset: Annotated[int | None, Meta(description="Where to read on; null at the end of the file.")]


def _read(call: ToolCall) -> ReadOutcome:
    asked: ReadArguments = call.arguments
    reader = FileReader(call.place, asked.path)
    try:
        count = max(0, min(asked.limit, reader.size - asked.offset))
        reader.begin(asked.offset, count)
        data = b"".join(iter(reader.read, b""))
    finally:
        reader.close()
    after = asked.offset + count
    return ReadOutcome(
        content=data.decode("utf-8", "replace")
        if asked.encoding == "utf-8"
        else base64.b64encode(data).decode(),
        size=reader.size,
        next_offset=after if after < reader.size else None,
    )


class WriteArguments(ToolArguments, frozen=True):
    path: FilePath
    content: str
    encoding: Encoding = "utf-8"


class PathOutcome(ToolResult, frozen=True):
    path: str


def _write(call: ToolCall) -> PathOutcome:
    asked: WriteArguments = call.arguments
    data = asked.content.encode() if asked.encoding == "utf-8" else _from_base64(asked.content)
    Files(call.place).write(asked.path, data)
    return PathOutcome(path=asked.path)


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise UnfitArgumentsError("content is not base64", "encode it, or leave the encoding out") from None


class ListArguments(ToolArguments, frozen=True):
    path: FilePath = "."


class EntryOutcome(ToolResult, frozen=True):
    name: str
    kind: str
    size: int
    is_link: bool


class ListOutcome(ToolResult, frozen=True):
    entries: tuple[EntryOutcome, ...]


def _list(call: ToolCall) -> ListOutcome:
    asked: ListArguments = call.arguments
    found = list_folder(call.place, asked.path, _MAX_ENTRIES)
    return ListOutcome(
        entries=tuple(
            EntryOutcome(
                name=each.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
                kind=each.facts.kind,
                size=each.facts.size,
                is_link=each.facts.is_link,
            )
            for each in found
        )
    )


class PathArguments(ToolArguments, frozen=True):
    path: FilePath


def _make_folder(call: ToolCall) -> PathOutcome:
    asked: PathArguments = call.arguments
    Files(call.place).mkdir(asked.path)
    return PathOutcome(path=asked.path)


class RenameArguments(ToolArguments, frozen=True):
    path: FilePath
    target: FilePath


def _rename(call: ToolCall) -> PathOutcome:
    asked: RenameArguments = call.arguments
    Files(call.place).rename(asked.path, asked.target)
    return PathOutcome(path=asked.target)


class RemoveArguments(ToolArguments, frozen=True):
    path: FilePath
    recursive: Annotated[bool, Meta(description="Whether a folder is removed with its content.")] = False


def _remove(call: ToolCall) -> PathOutcome:
    asked: RemoveArguments = call.arguments
    Files(call.place).remove(asked.path, recursive=asked.recursive)
    return PathOutcome(path=asked.path)


FILE_TOOLS: Final = (
    Tool(
        name="read_file",
        title="Read a file",
        description="Return a file of the sandbox, or a part of it.",
        arguments=ReadArguments,
        result=ReadOutcome,
        run=_read,
        reads_only=True,
    ),
    Tool(
        name="write_file",
        title="Write a file",
        description="Write a file in the sandbox as a whole, with the folders above it.",
        arguments=WriteArguments,
        result=PathOutcome,
        run=_write,
        destroys=True,
        is_idempotent=True,
    ),
    Tool(
        name="list_folder",
        title="List a folder",
        description=f"List the entries of a folder of the sandbox, at most {_MAX_ENTRIES}.",
        arguments=ListArguments,
        result=ListOutcome,
        run=_list,
        reads_only=True,
    ),
    Tool(
        name="make_folder",
        title="Make a folder",
        description="Create a folder in the sandbox, with the folders above it.",
        arguments=PathArguments,
        result=PathOutcome,
        run=_make_folder,
        is_idempotent=True,
    ),
    Tool(
        name="rename",
        title="Rename a file or a folder",
        description="Rename a file or a folder. An existing file of the new name is replaced.",
        arguments=RenameArguments,
        result=PathOutcome,
        run=_rename,
        destroys=True,
    ),
    Tool(
        name="remove",
        title="Remove a file or a folder",
        description="Remove a file, a link or a folder of the sandbox.",
        arguments=RemoveArguments,
        result=PathOutcome,
        run=_remove,
        destroys=True,
    ),
)
