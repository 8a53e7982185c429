"""The OpenAPI document of the API, made from the table of operations and the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from egress.api.operation import Operation
from egress.api.operations import OPERATIONS
from egress.api.process_schema import OutputEventView, TerminalServerMessage
from egress.api.schema import (
    ApiView,
    ClientMessage,
    Problem,
    ServerMessage,
    StartMessage,
)

Json = dict[str, Any]

_REFERENCE: Final = "#/components/schemas/{name}"
_PART_PATTERN: Final = re.compile(r"\{(\w+)\}")
_MEDIA_TYPES: Final = {
    "tar": "application/x-tar",
    "events": "text/event-stream",
    "bytes": "application/octet-stream",
    "lines": "application/x-ndjson",
    "json": "application/json",
}
_PART_SCHEMAS: Final[Mapping[str, Json]] = {"port": {"type": "integer", "minimum": 1, "maximum": 65535}}


def openapi_document(version: str, *, is_owner: bool) -> Json:
    """Return the document; `is_owner` includes the calls that only the unix socket offers."""
    offered = [each for each in OPERATIONS.values() if is_owner or not each.owner_only]
    paths: dict[str, Json] = {}
    for operation in offered:
        at_path = paths.setdefault(operation.path, {})
        # The stream of a command and the command itself share a path, and differ in their method.
        at_path[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Egress", "version": version, "license": {"name": "MIT", "identifier": "MIT"}},
        "paths": paths,
        "components": {
            "schemas": _components(offered),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [] if is_owner else [{"token": []}],
    }


def _operation(operation: Operation) -> Json:
    made: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": {str(operation.usual_status): _success(operation), "default": _problem()},
    }
    if not operation.needs_token:
        made["security"] = []
    if operation.body is not None:
        made["requestBody"] = {
            # Nothing stands for an object without fields.
            "required": any(field.required for field in msgspec.structs.fields(operation.body)),
            "content": {"application/json": {"schema": _ref(operation.body)}},
        }
    elif operation.sends != "json":
        media = _MEDIA_TYPES[operation.sends]
        # No bytes are content as well, and no archive.
        is_needed = operation.sends != "bytes"
        made["requestBody"] = {"required": is_needed, "content": {media: {"schema": {}}}}
    return made


def _path_parameters(operation: Operation) -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PART_SCHEMAS.get(name, {"type": "string", "minLength": 1}),
        }
        for name in _PART_PATTERN.findall(operation.path)
    ]


def _query_parameters(operation: Operation) -> list[Json]:
    if operation.query is None:
        return []
    schema = msgspec.json.schema_components([operation.query])[1][operation.query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": shape}
        for name, shape in schema["properties"].items()
    ]


def _success(operation: Operation) -> Json:
    if operation.returns == "none":
        return {"description": "Done."}
    if operation.returns == "websocket":
        return {"description": "The connection is a WebSocket from here on."}
    schema = _ref(operation.answer) if operation.answer is not None else {}
    media = _MEDIA_TYPES[operation.returns]
    content = {media: {"schema": schema if operation.returns == "json" else {}}}
    if operation.can_follow:
        content[_MEDIA_TYPES["events"]] = {"schema": {}}
    return {"description": operation.summary, "content": content}


def _problem() -> Json:
    return {
        "description": "The call was refused, or failed.",
        "content": {"application/json": {"schema": _ref(Problem)}},
    }


def _ref(kind: type[msgspec.Struct]) -> Json:
    return {"$ref": _REFERENCE.format(name=kind.__name__)}


def _components(offered: list[Operation]) -> Json:
    kinds: set[Any] = {Problem, StartMessage, ClientMessage, ServerMessage, OutputEventView}
    kinds |= {TerminalServerMessage}
    for operation in offered:
        kinds |= {each for each in (operation.body, operation.answer) if each is not None}
    found: Json = msgspec.json.schema_components(sorted(kinds, key=str), ref_template=_REFERENCE)[1]
    for view in _views(ApiView):
        # The library calls a field with a default optional, and the server always sends it.
        if view.__name__ in found and not view.__struct_config__.omit_defaults:
            found[view.__name__]["required"] = list(found[view.__name__]["properties"])
    return dict(sorted(found.items()))


def _views(above: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for view in above.__subclasses__():
        yield view
        yield from _views(view)
