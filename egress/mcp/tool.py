"""A tool: its name, its schemas, the hints about its effects, and the function behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import Struct

from egress.errors import EgressError
from egress.fleet import SandboxFleet
from egress.mcp.shortened_output import ShortenedOutput
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.handle import Sandbox

_MAX_PROGRESS_CHARS: Final = 200


class ToolArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of the arguments of a tool."""


class ToolResult(Struct, frozen=True, kw_only=True):
    """The base of the results of a tool."""


class UnfitArgumentsError(EgressError):
    """The arguments do not have the form that the schema of the tool says."""

    code = "request.invalid"


class ToolCall:
    """One call: the sandbox, the arguments, and the output so far for a client that wants to hear of it."""

    def __init__(self, fleet: SandboxFleet, sandbox: Sandbox, arguments: Any) -> None:  # noqa: ANN401 - the type is that of the tool
        self.sandbox = sandbox
        self.place = CommandRunner(fleet, sandbox.name)
        self.arguments = arguments
        self._outputs: tuple[ShortenedOutput, ...] = ()

    def follow(self, *outputs: ShortenedOutput) -> None:
        """Let the client hear of these outputs."""
        self._outputs = outputs

    def progress(self) -> str:
        """Return the newest line of the outputs."""
        lines = (each.last_line(_MAX_PROGRESS_CHARS) for each in self._outputs)
        return next(filter(None, lines), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. Its function blocks, and is run in a thread that can be cancelled."""

    name: str
    title: str
    description: str
    arguments: type[ToolArguments]
    result: type[ToolResult]
    run: Callable[[ToolCall], ToolResult]
    reads_only: bool = False
    destroys: bool = False
    """Whether it may take away what was there."""
    is_idempotent: bool = False
    reaches_out: bool = False
    """Whether it may talk to hosts outside of the sandbox, as far as the rules allow."""
    view: Mapping[str, object] = field(init=False)
    """The tool as clients list it."""

    def __post_init__(self) -> None:
        hints = {
            "title": self.title,
            "readOnlyHint": self.reads_only,
            "destructiveHint": self.destroys,
            "idempotentHint": self.is_idempotent or self.reads_only,
            "openWorldHint": self.reaches_out,
        }
        view = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": _schema(self.arguments),
            "outputSchema": _schema(self.result),
            "annotations": hints,
        }
        object.__setattr__(self, "view", view)

    def read_arguments(self, given: object) -> ToolArguments:
        """Return the arguments. Raises `UnfitArgumentsError`, whose text repeats no value."""
        try:
            return msgspec.convert(given, self.arguments)
        except msgspec.ValidationError as error:
            said = "".join(each if each.isprintable() else "?" for each in str(error)[:300])
            raise UnfitArgumentsError(
                f"the arguments of {self.name} do not fit: {said}", "see the input schema of the tool"
            ) from None


def _schema(kind: type[Struct]) -> Mapping[str, object]:
    """Return the JSON schema of a class, with everything that it needs in itself."""
    (root,), parts = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    own = dict(parts.pop(root["$ref"].rpartition("/")[2]))
    for each in (own, *parts.values()):
        # Names and first sentences of our classes say nothing to a model.
        each.pop("title", None)
        each.pop("description", None)
    return {**own, "$defs": parts} if parts else own
