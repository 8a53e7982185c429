"""The predicate `mcp`: tools with conditions on their arguments, resources, prompts and methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from egress.inspect.mcp.requested import (
    ClientReply,
    InputReply,
    McpItem,
    McpToolCall,
    NamedPart,
    PlainMethod,
    SessionUse,
)
from egress.inspect.mcp.resource_address import is_plain_address
from egress.rules.decide.argument_conditions import ArgumentCondition
from egress.rules.decide.body_predicate import BodyMiss, BodyPredicate, FieldValue
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.name_glob import NameGlob

FREE_METHODS: Final = frozenset(
    {
        "initialize",
        "ping",
        "server/discover",
        "logging/setLevel",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/roots/list_changed",
    }
)
"""Methods that every rule allows: they begin and end things, and lists are filtered."""


@dataclass(frozen=True, slots=True)
class ToolTerms:
    """A tool, and the arguments with which it may be called."""

    name: ValueGlob
    when: tuple[ArgumentCondition, ...] = ()
    is_only: bool = False
    """No other arguments than those of `when`."""

    def failing(self, call: McpToolCall) -> str:
        """Return the first condition that a call of this tool does not meet; empty if it meets all."""
        if not self.when and not self.is_only:
            return ""
        arguments = call.arguments
        if arguments is None:
            return "arguments that are not known here"
        unmet = next((each for each in self.when if not each.holds(arguments)), None)
        if unmet is not None:
            return f"with {unmet.text}"
        named = {each.path[0] for each in self.when}
        return "no other arguments" if self.is_only and not arguments.keys() <= named else ""

    def field(self) -> FieldValue:
        """Return the terms as they are written in a rule file."""
        if not self.when and not self.is_only:
            return self.name.text
        fields: dict[str, FieldValue] = {"name": self.name.text}
        if self.when:
            fields["when"] = {each.text: each.field() for each in self.when}
        return {**fields, "only": True} if self.is_only else fields


@dataclass(frozen=True, slots=True)
class McpPredicate:
    """Conditions on a message of MCP."""

    tools: tuple[ToolTerms, ...] = ()
    resources: tuple[NameGlob, ...] = ()
    prompts: tuple[ValueGlob, ...] = ()
    methods: tuple[str, ...] = ()
    server_requests: tuple[str, ...] = ()
    """Methods of requests of the server that reach the client, and that it may answer."""
    shows_all: bool = False
    """Lists pass as they come."""

    @property
    def kind(self) -> str:
        return "mcp"

    def expanded(self, item: object) -> tuple[object, ...] | None:
        del item
        return None

    def misses(self, item: object) -> BodyMiss | None:
        match item:
            case SessionUse():
                return None
            case McpToolCall():
                return self._misses_call(item)
            case NamedPart(kind=kind, name=name):
                if self._names_part(kind, name):
                    return None
                globs = self.resources if kind == "resource" else self.prompts
                return BodyMiss(f"mcp.{kind}", _only(f"{kind}s", (glob.text for glob in globs)))
            case ClientReply(method=method):
                if method in self.server_requests:
                    return None
                return BodyMiss("mcp.reply", _only("server requests", self.server_requests))
            case InputReply():
                return None if self.server_requests else BodyMiss("mcp.reply", "no server requests")
            case PlainMethod(method=method):
                if method in FREE_METHODS or method in self.methods:
                    return None
                return BodyMiss("mcp.method", _only("methods", (*sorted(FREE_METHODS), *self.methods)))
            case _:
                return BodyMiss("internal", "another kind of body")

    def _misses_call(self, call: McpToolCall) -> BodyMiss | None:
        named = [terms for terms in self.tools if terms.name.matches(call.tool)]
        if not named:
            return BodyMiss("mcp.tool", _only("tools", (terms.name.text for terms in self.tools)))
        failures = [terms.failing(call) for terms in named]
        if "" in failures:
            return None
        return BodyMiss("mcp.arguments", f"only {failures[0]}", nearness=1)

    def names(self, kind: str, name: str) -> bool:
        """Tell whether an allow rule is about this tool, resource or prompt, with whatever arguments."""
        if kind == "tool":
            return any(terms.name.matches(name) for terms in self.tools)
        return self._names_part(kind, name)

    def _names_part(self, kind: str, name: str) -> bool:
        if kind == "prompt":
            return any(glob.matches(name) for glob in self.prompts)
        return is_plain_address(name) and any(glob.matches(name) for glob in self.resources)

    def denies(self, item: object) -> bool:
        # Names of servers count case; one that does not must not be a way around a deny.
        match item:
            case McpToolCall(tool=tool):
                return any(terms.name.matches(tool, ignore_case=True) for terms in self.tools)
            case NamedPart(kind="prompt", name=name):
                return any(glob.matches(name, ignore_case=True) for glob in self.prompts)
            case NamedPart(name=name):
                return bool(self.resources) and (
                    not is_plain_address(name)
                    or any(glob.matches(name, ignore_case=True) for glob in self.resources)
                )
            case PlainMethod(method=method):
                return method.lower() in (each.lower() for each in self.methods)
            case ClientReply() | InputReply() | SessionUse():
                return False
            case _:
                return True

    def fields(self) -> Mapping[str, FieldValue]:
        fields: dict[str, FieldValue] = {}
        if self.tools:
            fields["tools"] = [terms.field() for terms in self.tools]
        for name in ("resources", "prompts"):
            if globs := getattr(self, name):
                fields[name] = [glob.text for glob in globs]
        for name in ("methods", "server_requests"):
            if written := getattr(self, name):
                fields[name] = list(written)
        if self.shows_all:
            fields["list"] = "pass"
        return fields


@dataclass(frozen=True, slots=True)
class McpAnswerTerms:
    """The parts of an answer that may reach the client, by all rules whose heads fit its request."""

    allows: tuple[McpPredicate, ...]
    denies: tuple[McpPredicate, ...]

    @property
    def shows_all(self) -> bool:
        """A rule lets lists pass as they come."""
        return any(each.shows_all for each in self.allows)

    def shows(self, kind: str, name: str) -> bool:
        """Tell whether an entry of a list is shown: some rule allows its use, with some arguments."""
        if not any(each.names(kind, name) for each in self.allows):
            return False
        item: McpItem = NamedPart("prompt" if kind == "prompt" else "resource", "", name)
        if kind == "tool":
            item = McpToolCall(name)
        return not any(each.denies(item) for each in self.denies)

    def passes_request(self, method: str) -> bool:
        """Tell whether a request of the server reaches the client."""
        return any(method in each.server_requests for each in self.allows)


def answer_terms(
    allows: Iterable[BodyPredicate | None], denies: Iterable[BodyPredicate | None]
) -> McpAnswerTerms | None:
    """Return the terms of an answer; None where the rules are about another kind of body."""
    allowing = tuple(each for each in allows if isinstance(each, McpPredicate))
    denying = tuple(each for each in denies if isinstance(each, McpPredicate))
    return McpAnswerTerms(allowing, denying) if allowing else None


def _only(kind: str, names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f"only {kind} {listed}" if listed else f"no {kind}"
