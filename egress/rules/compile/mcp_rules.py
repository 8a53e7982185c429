"""Compile the predicate `mcp` of a rule."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from egress.inspect.mcp.resource_address import is_plain_address
from egress.rules.decide.argument_conditions import EVERY_ELEMENT, ArgumentCondition, ScalarPattern
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.mcp_predicate import McpPredicate, ToolTerms
from egress.rules.decide.name_glob import NameGlob
from egress.rules.language.body_models import ArgumentBounds, ArgumentScalar, McpAllow, McpDeny, McpTool
from egress.rules.language.report import DocumentCursor, quoted

_TOOL_GLOB: Final = re.compile(r"[A-Za-z0-9_.*-]{1,128}")
_METHOD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,127}")
_JUDGED_METHODS: Final[Mapping[str, str]] = {
    "tools/call": "tools",
    "resources/read": "resources",
    "resources/subscribe": "resources",
    "resources/unsubscribe": "resources",
    "prompts/get": "prompts",
    "completion/complete": "prompts` or `resources",
}
"""Methods that other keys are about."""
MAX_PATH_STEPS: Final = 16


def mcp_predicate(model: McpAllow | McpDeny, at: DocumentCursor) -> McpPredicate:
    """Compile the predicate at `at`; report its mistakes."""
    tools = tuple(_tool(each, at / "tools" / number) for number, each in enumerate(model.tools or ()))
    made = McpPredicate(
        tools,
        _resources(model.resources, at / "resources"),
        _prompts(model.prompts, at / "prompts"),
        _methods(model.methods, at / "methods"),
    )
    if isinstance(model, McpAllow):
        requests = _server_requests(model.server_requests, at / "server_requests")
        return McpPredicate(
            made.tools, made.resources, made.prompts, made.methods, requests, shows_all=model.list_ == "pass"
        )
    if made == McpPredicate():
        at.error(
            "a deny of MCP names tools, resources, prompts or methods", 'to deny all tools, write `["*"]`'
        )
    return made


def _tool(written: str | McpTool, at: DocumentCursor) -> ToolTerms:
    name = written if isinstance(written, str) else written.name
    here = at if isinstance(written, str) else at / "name"
    if not _TOOL_GLOB.fullmatch(name):
        here.error(f"{quoted(name)} is not the name of a tool", "write it as in `create_issue` or `get_*`")
    if isinstance(written, str):
        return ToolTerms(ValueGlob(name))
    when = tuple(_condition(path, value, at / "when" / path) for path, value in (written.when or {}).items())
    return ToolTerms(ValueGlob(name), when, is_only=written.only)


def _condition(
    path: str, written: ArgumentBounds | ArgumentScalar | list[ArgumentScalar], at: DocumentCursor
) -> ArgumentCondition:
    steps = tuple(path.split("/"))
    if "" in steps or steps[0] == EVERY_ELEMENT or len(steps) > MAX_PATH_STEPS:
        at.key_error(
            f"{quoted(path)} does not lead to an argument",
            "write it as in `repo`, `labels/*` or `author/name`",
        )
    if not isinstance(written, ArgumentBounds):
        values = [written] if isinstance(written, str | bool | int | float) else list(written)
        if not values:
            at.error("an empty list matches nothing", "name values, or remove the key")
        return ArgumentCondition(steps, tuple(_pattern(value) for value in values))
    has_bounds = written.min is not None or written.max is not None
    if written.absent is has_bounds:
        at.error("write either `absent: true`, or `min`, `max` or both", "remove the others")
    least, most = _number(written.min), _number(written.max)
    if least is not None and most is not None and least > most:
        at.error("`min` is larger than `max`", "no number lies between them: swap them")
    return ArgumentCondition(steps, least=least, most=most, is_absent=written.absent)


def _pattern(value: ArgumentScalar) -> ScalarPattern:
    return (
        ValueGlob(value) if isinstance(value, str) else value if isinstance(value, bool) else _decimal(value)
    )


def _number(value: float | None) -> Decimal | None:
    return None if value is None else _decimal(value)


def _decimal(value: float) -> Decimal:
    # By its text: the binary value of 0.1 is another number.
    return Decimal(repr(value))


def _resources(written: Sequence[str] | None, at: DocumentCursor) -> tuple[NameGlob, ...]:
    for number, text in enumerate(written or ()):
        here = at / number
        if any("**" in segment and segment != "**" for segment in text.split("/")):
            here.error("** must be a whole segment", "use * for a part of a segment")
        elif not text or not is_plain_address(text.replace("*", "x")):
            here.error(f"{quoted(text)} can never match", "write it as in `repo://acme/**`, without escapes")
    return tuple(map(NameGlob, written or ()))


def _prompts(written: Sequence[str] | None, at: DocumentCursor) -> tuple[ValueGlob, ...]:
    for number, text in enumerate(written or ()):
        if not text:
            (at / number).error("a prompt has a name", "write it as in `review` or `review-*`")
    return tuple(map(ValueGlob, written or ()))


def _methods(written: Sequence[str] | None, at: DocumentCursor) -> tuple[str, ...]:
    for number, text in enumerate(written or ()):
        here = at / number
        if not _METHOD.fullmatch(text):
            here.error(f"{quoted(text)} is not the name of a method", "write it as in `subscriptions/listen`")
        elif (key := _JUDGED_METHODS.get(text)) is not None:
            here.error(f"{quoted(text)} is not allowed as a whole", f"use `{key}` of this rule")
    return tuple(written or ())


def _server_requests(written: Sequence[str] | None, at: DocumentCursor) -> tuple[str, ...]:
    for number, text in enumerate(written or ()):
        if not _METHOD.fullmatch(text):
            (at / number).error(f"{quoted(text)} is not the name of a method", "write it as in `roots/list`")
    return tuple(written or ())
