"""The parts of a document that say which objects it asks for: arguments, selections, types of fragments.

Made of the parser's nodes, and only for a rule with a scope: most documents are judged without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from egress.inspect.strict_json import JsonValue

if TYPE_CHECKING:
    from graphql.language import (
        DirectiveNode,
        DocumentNode,
        OperationDefinitionNode,
        SelectionSetNode,
        ValueNode,
    )

MAX_VALUE_DEPTH: Final = 32
"""Lists and objects within each other, in a document."""
_HARMLESS_DIRECTIVES: Final = frozenset({"skip", "include"})


class SyntaxReadingError(ValueError):
    """A document that is read differently by different servers."""


@dataclass(frozen=True, slots=True)
class VariableUse:
    """A variable in place of a value."""

    name: str


@dataclass(frozen=True, slots=True)
class BareWord:
    """A number or the name of an enumeration; no address is written so."""

    text: str


Value = JsonValue | VariableUse | BareWord | list["Value"] | dict[str, "Value"]


@dataclass(frozen=True, slots=True)
class Field:
    """A field with its arguments; without selections it is a leaf."""

    name: str
    arguments: Mapping[str, Value]
    selections: tuple[Selection, ...]


@dataclass(frozen=True, slots=True)
class Inline:
    """A fragment in its place; without a type it has that of the selection around it."""

    type: str
    selections: tuple[Selection, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """A fragment by its name."""

    name: str


Selection = Field | Inline | Spread


@dataclass(frozen=True, slots=True)
class OperationSyntax:
    """An operation, with the defaults of those of its variables that have one."""

    type: str
    variables: Mapping[str, Value]
    selections: tuple[Selection, ...]


@dataclass(frozen=True, slots=True)
class Syntax:
    """A document."""

    operations: tuple[OperationSyntax, ...]
    fragments: Mapping[str, Inline]


def syntax_of(document: DocumentNode) -> Syntax:
    """Return the parts of a document that was checked before. Raises `SyntaxReadingError`."""
    from graphql.language import FragmentDefinitionNode, OperationDefinitionNode  # noqa: PLC0415

    operations: list[OperationSyntax] = []
    fragments: dict[str, Inline] = {}
    for node in document.definitions:
        if isinstance(node, OperationDefinitionNode):
            _check_directives(node.directives)
            operations.append(
                OperationSyntax(node.operation.value, _defaults(node), _selections(node.selection_set))
            )
        elif isinstance(node, FragmentDefinitionNode):
            _check_directives(node.directives)
            inner = _selections(node.selection_set)
            fragments[node.name.value] = Inline(node.type_condition.name.value, inner)
    return Syntax(tuple(operations), fragments)


def _defaults(node: OperationDefinitionNode) -> Mapping[str, Value]:
    names: set[str] = set()
    defaults: dict[str, Value] = {}
    for variable in node.variable_definitions or ():
        name = variable.variable.name.value
        if name in names:
            raise SyntaxReadingError("a variable is defined twice")
        names.add(name)
        _check_directives(variable.directives)
        if variable.default_value is not None:
            defaults[name] = _value(variable.default_value)
    return defaults


def _selections(node: SelectionSetNode | None) -> tuple[Selection, ...]:
    from graphql.language import FieldNode, FragmentSpreadNode, InlineFragmentNode  # noqa: PLC0415

    found: list[Selection] = []
    for each in () if node is None else node.selections:
        _check_directives(each.directives)
        if isinstance(each, FieldNode):
            arguments = _named((one.name.value, one.value) for one in each.arguments or ())
            found.append(Field(each.name.value, arguments, _selections(each.selection_set)))
        elif isinstance(each, InlineFragmentNode):
            name = "" if each.type_condition is None else each.type_condition.name.value
            found.append(Inline(name, _selections(each.selection_set)))
        elif isinstance(each, FragmentSpreadNode):
            found.append(Spread(each.name.value))
    return tuple(found)


def _named(pairs: Iterable[tuple[str, ValueNode]], depth: int = 0) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found:
            raise SyntaxReadingError("an argument or a field of an object stands twice")
        found[name] = _value(value, depth)
    return found


def _value(node: ValueNode, depth: int = 0) -> Value:
    from graphql.language import (  # noqa: PLC0415
        BooleanValueNode,
        ListValueNode,
        NullValueNode,
        ObjectValueNode,
        StringValueNode,
        VariableNode,
    )

    if depth > MAX_VALUE_DEPTH:
        raise SyntaxReadingError("a value is nested too deeply")
    match node:
        case StringValueNode() | BooleanValueNode():
            return node.value
        case NullValueNode():
            return None
        case VariableNode():
            return VariableUse(node.name.value)
        case ListValueNode():
            return [_value(each, depth + 1) for each in node.values]
        case ObjectValueNode():
            return _named(((each.name.value, each.value) for each in node.fields), depth + 1)
        case _:
            return BareWord(str(getattr(node, "value", "")))


def _check_directives(nodes: Iterable[DirectiveNode] | None) -> None:
    # Which arguments others take, and what becomes of them, no table says.
    if not all(each.name.value in _HARMLESS_DIRECTIVES for each in nodes or ()):
        raise SyntaxReadingError("a directive is neither @skip nor @include")
