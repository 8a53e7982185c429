"""Reads GraphQL documents, with the parser of graphql-core. Only this file and `syntax` import it.

Every operation of a document counts, whichever the request selects, and so does a field that a directive
seems to switch off. Fragments are visited once for each operation, so fragments that double at each level
cost no more than their text.

The parser takes some things that servers refuse, or read in their own way. They are refused here: definitions
that are no operations, two definitions of one name, an empty selection, a fragment that is missing or
contains itself.

The import takes a large part of a second, so it waits for the first rule of this kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from graphql.language import (
        DocumentNode,
        FragmentDefinitionNode,
        OperationDefinitionNode,
        SelectionSetNode,
    )

MAX_DOCUMENT_BYTES: Final = 64 * 1024
MAX_DOCUMENT_TOKENS: Final = 4000
MAX_SELECTION_DEPTH: Final = 100
MAX_OPERATIONS: Final = 32
"""Each operation has root fields of its own, and all may spread one long fragment."""

_TOKEN: Final = re.compile(
    r'"""(?:[^"\\]++|\\"""|\\|"(?!""))*+(?:""")?+|"(?:[^"\\\n\r]++|\\.)*+"?+|#[^\n\r]*+'
    r"|[_A-Za-z0-9.+-]++|[!$&():=@\[\]{|}]"
)
"""Counts tokens in a fraction of the time of the parser, which makes a node of each before it stops.

A string that never ends counts as one: else each quote in it would be tried to the end of the document."""

OperationType = Literal["query", "mutation", "subscription"]
OPERATION_TYPES: Final[tuple[OperationType, ...]] = ("query", "mutation", "subscription")


class DocumentError(ValueError):
    """A document that cannot be judged."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class GraphqlOperation:
    """An operation of a document."""

    type: OperationType
    name: str
    """Empty for an anonymous one."""
    fields: tuple[str, ...]
    """The names of its root fields, never their aliases, once each."""


@dataclass(frozen=True, slots=True)
class GraphqlDocument:
    """What rules can ask about a document."""

    operations: tuple[GraphqlOperation, ...]
    inner_fields: frozenset[str]
    """The names of all fields below root fields, in any operation or fragment."""
    parsed: DocumentNode | None = field(default=None, compare=False, repr=False)
    """The parser's own tree, which `syntax` reads for rules with a scope."""


def load_parser() -> None:
    """Import the parser, so that the first request does not wait for it."""
    from graphql.language import parse  # noqa: F401, PLC0415


def read_document(text: str) -> GraphqlDocument:
    """Read a document. Raises `DocumentError`, whose text never quotes the document."""
    if len(text) > MAX_DOCUMENT_BYTES or len(text.encode("utf-8")) > MAX_DOCUMENT_BYTES:
        raise DocumentError("graphql.syntax", "the document is too long")
    if sum(1 for each in _TOKEN.finditer(text) if each[0][0] != "#") > MAX_DOCUMENT_TOKENS:
        raise DocumentError("graphql.syntax", "the document has too many tokens")
    parsed = _parsed(text)
    reading = _Reading(parsed)
    reading.check_fragments()
    operations = tuple(
        GraphqlOperation(each.operation.value, _name(each), reading.root_fields(each))
        for each in reading.operations
    )
    return GraphqlDocument(operations, frozenset(reading.inner_fields), parsed)


def _parsed(text: str) -> DocumentNode:
    from graphql.error import GraphQLSyntaxError  # noqa: PLC0415
    from graphql.language import parse  # noqa: PLC0415

    try:
        return parse(text, no_location=True, max_tokens=MAX_DOCUMENT_TOKENS)
    except (GraphQLSyntaxError, RecursionError):
        raise DocumentError("graphql.syntax", "the document is not GraphQL, or too large") from None


def _name(node: OperationDefinitionNode | FragmentDefinitionNode) -> str:
    return node.name.value if node.name is not None else ""


@dataclass(slots=True)
class _Outer:
    """The selections of a fragment that are below no field of its own."""

    fields: set[str] = field(default_factory=set)
    spreads: set[str] = field(default_factory=set)


class _Reading:
    """A parsed document, while it is judged."""

    def __init__(self, document: DocumentNode) -> None:
        self.operations: list[OperationDefinitionNode] = []
        self.fragments: dict[str, FragmentDefinitionNode] = {}
        self.inner_fields: set[str] = set()
        self._spreads: dict[str, set[str]] = {}
        """The fragments that each fragment spreads."""
        self._inner_spreads: set[str] = set()
        """The fragments that are spread below some field."""
        self._outer: dict[str, _Outer] = {}
        for node in document.definitions:
            self._sort(node)
        names = [_name(each) for each in self.operations]
        if not names:
            raise DocumentError("graphql.document", "it has no operation")
        if len(names) > MAX_OPERATIONS:
            raise DocumentError("graphql.syntax", "it has too many operations")
        if len(set(names)) != len(names) or ("" in names and len(names) > 1):
            raise DocumentError("graphql.document", "its operations cannot be told apart by name")
        self._wanted = set[str]().union(
            *(self._walk(each.selection_set, _Outer()) for each in self.operations)
        )
        """The fragments that operations spread."""
        for name, fragment in self.fragments.items():
            outer = self._outer[name] = _Outer()
            self._spreads[name] = self._walk(fragment.selection_set, outer)

    def _sort(self, node: object) -> None:
        from graphql.language import FragmentDefinitionNode, OperationDefinitionNode  # noqa: PLC0415

        if getattr(node, "description", None) is not None:
            raise DocumentError("graphql.document", "a definition has a description")
        if isinstance(node, OperationDefinitionNode):
            self.operations.append(node)
        elif isinstance(node, FragmentDefinitionNode):
            name = _name(node)
            if name in self.fragments:
                raise DocumentError("graphql.document", "two fragments have one name")
            self.fragments[name] = node
        else:
            raise DocumentError("graphql.document", "it defines more than operations and fragments")

    def _walk(self, root: SelectionSetNode, outer: _Outer) -> set[str]:
        """Look at every selection below; return the fragments that are spread, and note those of `root`."""
        from graphql.language import FieldNode, FragmentSpreadNode, InlineFragmentNode  # noqa: PLC0415

        spread: set[str] = set()
        # The third value tells a selection of a root object from one of a field.
        waiting = [(root, 1, False)]
        while waiting:
            selected, depth, is_inner = waiting.pop()
            if depth > MAX_SELECTION_DEPTH:
                raise DocumentError("graphql.syntax", "the document is nested too deeply")
            if not selected.selections:
                raise DocumentError("graphql.document", "a selection is empty")
            for each in selected.selections:
                if isinstance(each, FragmentSpreadNode):
                    spread.add(each.name.value)
                    (self._inner_spreads if is_inner else outer.spreads).add(each.name.value)
                    continue
                if isinstance(each, FieldNode):
                    (self.inner_fields if is_inner else outer.fields).add(each.name.value)
                    if each.selection_set is not None:
                        waiting.append((each.selection_set, depth + 1, True))
                elif isinstance(each, InlineFragmentNode):
                    waiting.append((each.selection_set, depth + 1, is_inner))
        return spread

    def check_fragments(self) -> None:
        """Refuse fragments that are missing, or contain themselves."""
        if not self._wanted.union(*self._spreads.values()) <= self.fragments.keys():
            raise DocumentError("graphql.document", "a fragment is missing")
        # Those that spread none of the rest are taken away, until none is left.
        left = {name: set(spread) for name, spread in self._spreads.items()}
        users: dict[str, list[str]] = {name: [] for name in left}
        for name, spread in left.items():
            for used in spread:
                users[used].append(name)
        ready = [name for name, spread in left.items() if not spread]
        done = 0
        while ready:
            name = ready.pop()
            done += 1
            for user in users[name]:
                left[user].discard(name)
                if not left[user]:
                    ready.append(user)
        if done != len(left):
            raise DocumentError("graphql.document", "a fragment contains itself")
        self._note_inner_fragments()

    def _note_inner_fragments(self) -> None:
        """Count the outer fields of fragments that are spread below a field: there they are inner ones."""
        waiting, seen = list(self._inner_spreads), set[str]()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                self.inner_fields |= self._outer[name].fields
                waiting += self._outer[name].spreads

    def root_fields(self, operation: OperationDefinitionNode) -> tuple[str, ...]:
        """Return the names of the fields of the operation, those in fragments among them."""
        return tuple(dict.fromkeys(self._flattened(operation.selection_set)))

    def _flattened(self, root: SelectionSetNode) -> Iterator[str]:
        from graphql.language import FieldNode, FragmentSpreadNode, InlineFragmentNode  # noqa: PLC0415

        seen: set[str] = set()
        waiting = [root]
        while waiting:
            for each in waiting.pop().selections:
                if isinstance(each, FieldNode):
                    yield each.name.value
                elif isinstance(each, InlineFragmentNode):
                    waiting.append(each.selection_set)
                elif isinstance(each, FragmentSpreadNode) and each.name.value not in seen:
                    seen.add(each.name.value)
                    waiting.append(self.fragments[each.name.value].selection_set)
