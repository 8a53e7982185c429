"""The kinds of body that rules can ask about, by the key of their predicate."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from egress.inspect.git.git_kind import GitKind
from egress.inspect.graphql.document import load_parser
from egress.inspect.graphql.graphql_kind import GraphqlKind
from egress.inspect.inspector import BodyKind, Facts, Unreadable
from egress.inspect.llm.llm_kind import LlmKind
from egress.inspect.llm.usage import LLM_APIS
from egress.inspect.mcp.mcp_kind import McpKind
from egress.types import Head

_ALL_KINDS: Final[tuple[BodyKind, ...]] = (GitKind(), GraphqlKind(), McpKind(), *map(LlmKind, LLM_APIS))
KINDS: Final[Mapping[str, BodyKind]] = {kind.name: kind for kind in _ALL_KINDS}


def prepare_kinds(names: Container[str]) -> None:
    """Load what these kinds need, for which a first request would have to wait."""
    if "graphql" in names:
        load_parser()


def inspect_whole(kind: BodyKind, head: Head, body: bytes) -> Facts | Unreadable:
    """Return the facts of a request whose body is at hand, as for a body that comes in one piece."""
    found = kind.begin(head)
    if isinstance(found, Facts | Unreadable):
        return found
    if len(body) > kind.max_held_bytes:
        return Unreadable("body.too_large", "the body is too large")
    first = found.feed(body) if body else None
    if isinstance(first, Unreadable) or (isinstance(first, Facts) and not first.can_improve):
        return first
    return found.end()
