"""Tells which repositories a root field of a document reaches, by the table of the schema.

Theory of operation. A root field names a repository, by owner and name or by ids, and the selection below it
leads on. As long as the table says that a field stays inside, whatever is found is in that repository. A
field that leads to people, organizations, projects or other repositories opens a *stub*: names and ids, and
nothing of their content. All other fields are closed. Arguments are looked at by the type of their slot, in
the text, in variables and in the defaults of variables: each id has to tell its repository, or be of a person
in a slot for people.

So the answer is a list of demands, each a repository, which a rule compares with its scope, or a fault, which
no scope covers. A field or an argument that the table does not know is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from egress.inspect.graphql.document import MAX_SELECTION_DEPTH
from egress.inspect.graphql.github.node_id import NodeIdError, read_node_id
from egress.inspect.graphql.github.schema_table import (
    FieldRow,
    SchemaTable,
    schema_table,
)
from egress.inspect.graphql.syntax import (
    Field,
    Inline,
    Selection,
    Spread,
    Syntax,
    SyntaxReadingError,
    Value,
    VariableUse,
    syntax_of,
)
from egress.inspect.strict_json import JsonValue

if TYPE_CHECKING:
    from graphql.language import DocumentNode

MAX_WALK_STEPS: Final = 5_000
"""Selections that are looked at for one document; a fragment counts for each root field that spreads it."""
ID_COST: Final = 4
"""Steps for which an id counts: it takes as long to read."""
OWNER_ROOTS: Final = frozenset({"organization", "repositoryOwner", "user"})
FREE_ROOTS: Final[Mapping[str, FieldRow]] = {
    "rateLimit": FieldRow("inside", "RateLimit", {"dryRun": ""}),
    "meta": FieldRow("inside", "GitHubMetadata", {}),
    "license": FieldRow("inside", "License", {"key": ""}),
    "licenses": FieldRow("inside", "License", {}),
    "codeOfConduct": FieldRow("inside", "CodeOfConduct", {"key": ""}),
    "codesOfConduct": FieldRow("inside", "CodeOfConduct", {}),
    "viewer": FieldRow("stub", "User", {}),
    "__typename": FieldRow("inside", "", {}),
}
"""Roots that are about no repository."""
_NODE_ROOTS: Final[Mapping[str, FieldRow]] = {
    "node": FieldRow("inside", "Node", {"id": "id"}),
    "nodes": FieldRow("inside", "Node", {"ids": "id"}),
}
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_DOTS: Final = frozenset({".", ".."})


@dataclass(frozen=True, slots=True)
class Named:
    """A repository by its name."""

    name: str
    """`owner/name`, as it is written."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Numbered:
    """A repository by its number, which ids of its objects tell."""

    number: int

    def __str__(self) -> str:
        return f"repository {self.number}"


Demand = Named | Numbered


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a root field reaches."""

    demands: tuple[Demand, ...] = ()
    code: str = ""
    """Of a fault, with which no scope covers the field."""
    detail: str = ""


class _ReachError(Exception):
    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.reach = Reach((), code, detail)


class DocumentReach:
    """The reach of each root field of a document, found when a rule first asks."""

    def __init__(self, document: DocumentNode, variables: Mapping[str, JsonValue]) -> None:
        self._document = document
        self._variables = variables
        self._found: Mapping[tuple[str, str], Reach] | None = None
        self._fault = Reach((), "graphql.scope", "it is not in the document")

    def of(self, kind: str, name: str) -> Reach:
        """Return the reach of all root fields of this type and name together."""
        if self._found is None:
            try:
                self._found = _Walk(syntax_of(self._document), self._variables).found
            except SyntaxReadingError as fault:
                self._found, self._fault = {}, Reach((), "graphql.document", str(fault))
            except _ReachError as fault:
                self._found, self._fault = {}, fault.reach
        return self._found.get((kind, name), self._fault)


@dataclass(frozen=True, slots=True)
class _Zone:
    """Where a selection stands."""

    kind: Literal["inside", "stub", "owner"]
    name: str = ""
    """The type of its objects inside a repository; the login of an owner."""


_STUB: Final = _Zone("stub")


class _Walk:
    """A document, while it is walked."""

    def __init__(self, syntax: Syntax, given: Mapping[str, JsonValue]) -> None:
        self._syntax = syntax
        self._given = given
        self._table: SchemaTable = schema_table()
        self._steps = self._depth = 0
        self._defaults: Mapping[str, Value] = {}
        self._demands: dict[Demand, None] = {}
        self._visited: set[tuple[str, _Zone]] = set()
        found: dict[tuple[str, str], Reach] = {}
        for operation in syntax.operations:
            self._defaults = operation.variables
            for field in self._roots(operation.selections, set(), 1):
                key = operation.type, field.name
                before = found.get(key, Reach())
                after = self._root(operation.type, field)
                found[key] = (
                    before
                    if before.code
                    else Reach(
                        tuple(dict.fromkeys((*before.demands, *after.demands))), after.code, after.detail
                    )
                )
        self.found: Mapping[tuple[str, str], Reach] = found

    def _roots(self, selections: tuple[Selection, ...], spread: set[str], depth: int) -> Iterator[Field]:
        self._check_depth(depth)
        for each in selections:
            self._step()
            match each:
                case Field():
                    yield each
                case Inline():
                    yield from self._roots(each.selections, spread, depth + 1)
                case Spread() if each.name not in spread:
                    spread.add(each.name)
                    fragment = self._syntax.fragments[each.name]
                    yield from self._roots(fragment.selections, spread, depth + 1)

    def _step(self, cost: int = 1) -> None:
        self._steps += cost
        if self._steps > MAX_WALK_STEPS:
            raise _ReachError("graphql.syntax", "the document is too large to be followed")

    @staticmethod
    def _check_depth(depth: int) -> None:
        # Each fragment alone is bounded already; a chain of them is not.
        if depth > MAX_SELECTION_DEPTH:
            raise _ReachError("graphql.syntax", "the document is nested too deeply")

    def _root(self, kind: str, field: Field) -> Reach:
        self._demands, self._visited, self._depth = {}, set(), 0
        try:
            self._enter(kind, field)
        except _ReachError as fault:
            return fault.reach
        return Reach(tuple(self._demands))

    def _enter(self, kind: str, field: Field) -> None:
        """Walk a root field."""
        if kind == "mutation" and (row := self._table.mutation(field.name)) is not None:
            self._follow(field, row)
        elif kind == "query" and (free := FREE_ROOTS.get(field.name)) is not None:
            self._follow(field, free)
            return
        elif kind == "query" and (row := _NODE_ROOTS.get(field.name)) is not None:
            self._follow(field, row)
        elif kind == "query" and field.name == "repository":
            self._repository(field, self._text(field.arguments.get("owner")), {"owner", "name"})
        elif kind == "query" and field.name in OWNER_ROOTS:
            self._owner(field)
            return
        elif kind == "mutation" and field.name == "__typename":
            return
        else:
            raise _ReachError("graphql.scope_root", "it is not about one repository")
        if not self._demands:
            raise _ReachError("graphql.scope", "it names no repository")

    def _repository(self, field: Field, owner: str, names: set[str]) -> None:
        """Walk a field that names a repository of an owner."""
        if not field.arguments.keys() <= {*names, "followRenames"}:
            raise _ReachError(
                "graphql.unknown_field", self._unknown(f"{field.name}({'|'.join(field.arguments)})")
            )
        if self._resolved(field.arguments.get("followRenames")) not in (None, False):
            raise _ReachError("graphql.scope", "followRenames may lead to another repository")
        self._demand_name(f"{owner}/{self._text(field.arguments.get('name'))}")
        self._walk(field.selections, _Zone("inside", "Repository"))

    def _owner(self, field: Field) -> None:
        if field.arguments.keys() != {"login"}:
            raise _ReachError("graphql.scope", "the owner is not named by its login alone")
        self._walk(field.selections, _Zone("owner", self._text(field.arguments["login"])))

    # Selections -------------------------------------------------------------------------------

    def _walk(self, selections: tuple[Selection, ...], zone: _Zone) -> None:
        self._depth += 1
        self._check_depth(self._depth)
        for each in selections:
            self._step()
            match each:
                case Field():
                    self._field(each, zone)
                case Inline():
                    self._walk(each.selections, self._narrowed(zone, each.type) if each.type else zone)
                case Spread():
                    fragment = self._syntax.fragments[each.name]
                    inner = self._narrowed(zone, fragment.type)
                    if (each.name, inner) not in self._visited:
                        self._visited.add((each.name, inner))
                        self._walk(fragment.selections, inner)
        self._depth -= 1

    def _narrowed(self, zone: _Zone, name: str) -> _Zone:
        """Return the zone of a fragment for objects of a type."""
        if zone.kind != "inside":
            return zone
        # What is no part of a repository is seen as from outside.
        return _Zone("inside", name) if self._table.has(name) else _STUB

    def _field(self, field: Field, zone: _Zone) -> None:
        if field.name == "__typename" and not field.arguments and not field.selections:
            return
        if zone.kind == "owner" and field.name == "repository":
            self._repository(field, zone.name, {"name"})
        elif zone.kind != "inside":
            self._stub_field(field)
        else:
            row = self._table.field(zone.name, field.name)
            if row is None:
                raise _ReachError("graphql.unknown_field", self._unknown(f"{zone.name}.{field.name}"))
            if row.zone == "closed":
                raise _ReachError("graphql.foreign", f"{zone.name}.{field.name} leads out of the repository")
            self._follow(field, row)

    def _stub_field(self, field: Field) -> None:
        if field.selections:
            taken = self._table.stub_objects.get(field.name)
            if taken is not None and field.arguments.keys() <= taken:
                self._walk(field.selections, _STUB)
                return
        elif field.name in self._table.stub_leaves and not field.arguments:
            return
        raise _ReachError("graphql.foreign", f"{field.name} is asked of something outside the repository")

    def _follow(self, field: Field, row: FieldRow) -> None:
        """Walk the arguments of a field, and what it leads to."""
        for name, value in field.arguments.items():
            kind = row.slots.get(name)
            if kind is None:
                raise _ReachError("graphql.unknown_field", self._unknown(f"{field.name}({name})"))
            self._slot(kind, value)
        if bool(field.selections) != bool(row.target):
            raise _ReachError("graphql.unknown_field", self._unknown(field.name))
        self._walk(field.selections, _STUB if row.zone == "stub" else _Zone("inside", row.target))

    def _unknown(self, name: str) -> str:
        return f"{name} is not in the schema of {self._table.date}"

    # Values -----------------------------------------------------------------------------------

    def _resolved(self, value: Value) -> Value:
        """Return the value that the server will see; None for one that is absent."""
        if not isinstance(value, VariableUse):
            return value
        if value.name in self._given:
            return self._given[value.name]
        default = self._defaults.get(value.name)
        return None if isinstance(default, VariableUse) else default

    def _text(self, value: Value) -> str:
        resolved = self._resolved(value)
        if not isinstance(resolved, str):
            raise _ReachError("graphql.scope", "a repository is not named by texts")
        return resolved

    def _slot(self, kind: str, value: Value) -> None:
        """Look at a value by the kind of its slot."""
        if not kind:
            return
        value = self._resolved(value)
        if value is None:
            return
        if isinstance(value, list):
            for each in value:
                self._step()
                self._slot(kind, each)
            return
        match kind:
            case "id" | "people":
                self._id(kind, value)
            case "repository":
                self._demand_name(self._text(value))
            case "local":
                if ":" in self._text(value):
                    raise _ReachError("graphql.scope", "a branch of another repository is named")
            case "closed":
                raise _ReachError("graphql.scope", "an address of this kind cannot be compared")
            case _:
                self._input(kind, value)

    def _input(self, kind: str, value: Value) -> None:
        slots = self._table.input_slots(kind)
        if slots is None or not isinstance(value, dict):
            raise _ReachError("graphql.unknown_field", self._unknown(kind))
        for name, inner in value.items():
            self._step()
            if name not in slots:
                raise _ReachError("graphql.unknown_field", self._unknown(f"{kind}.{name}"))
            self._slot(slots[name], inner)

    def _id(self, kind: str, value: Value) -> None:
        self._step(ID_COST)
        if not isinstance(value, str):
            raise _ReachError("graphql.node_id", "an id is not a text")
        try:
            found = read_node_id(value)
        except NodeIdError as error:
            raise _ReachError(error.code, error.detail) from None
        if found.repository:
            self._demands[Numbered(found.repository)] = None
        elif kind != "people":
            raise _ReachError("graphql.scope", "an id of a person stands where an object is addressed")

    def _demand_name(self, name: str) -> None:
        owner, _, short = name.partition("/")
        if not _NAME.fullmatch(owner) or not _NAME.fullmatch(short) or {owner, short} & _DOTS:
            raise _ReachError("graphql.scope", "a repository is not named as GitHub names them")
        self._demands[Named(name)] = None
