"""The table of GitHub's schema: where each field leads, and which slots hold addresses.

`scripts/github_schema.py` makes it of the schema that GitHub publishes. It is loaded for the first rule
with a scope, and a type's rows are read when a document first comes to the type.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypedDict

Zone = Literal["inside", "stub", "closed"]


class ObjectRows(TypedDict, total=False):
    """The fields of a type, by how far they lead."""

    leaf: str
    closed: str
    inside: Mapping[str, str]
    stub: Mapping[str, str]


class StubRows(TypedDict):
    """What may be asked of objects outside the repository."""

    leaf: str
    objects: Mapping[str, str]


class SchemaData(TypedDict):
    """The table as it is stored."""

    source: str
    date: str
    stub: StubRows
    mutations: Mapping[str, str]
    objects: Mapping[str, ObjectRows]
    inputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field of a type inside a repository."""

    zone: Zone
    target: str
    """The type of its objects; empty for a leaf."""
    slots: Mapping[str, str]
    """What its arguments hold, by their names; empty for text that is no address."""


class SchemaTable:
    """The rows of the table, by type and field."""

    def __init__(self, data: SchemaData) -> None:
        self.date = data["date"]
        self.stub_leaves = frozenset(data["stub"]["leaf"].split())
        """Leaf fields that tell objects outside the repository apart, and say nothing of their content."""
        self.stub_objects: Mapping[str, frozenset[str]] = {
            name: frozenset(arguments.split()) for name, arguments in data["stub"]["objects"].items()
        }
        """Fields that lead from there to other objects of which a stub may be asked, with their arguments."""
        self._objects = data["objects"]
        self._inputs = data["inputs"]
        self._mutations = data["mutations"]
        self._rows: dict[str, Mapping[str, FieldRow]] = {}
        self._slots: dict[str, Mapping[str, str]] = {}

    def has(self, name: str) -> bool:
        """Report whether objects of this type can be inside a repository."""
        return name in self._objects

    def field(self, owner: str, name: str) -> FieldRow | None:
        """Return the row of a field; None for one that is not known."""
        rows = self._rows.get(owner)
        if rows is None:
            rows = self._rows[owner] = _rows(self._objects.get(owner, {}))
        return rows.get(name)

    def mutation(self, name: str) -> FieldRow | None:
        """Return the row of a mutation that can be about a repository."""
        found = self._mutations.get(name)
        if found is None:
            return None
        payload, taken = found.split()
        return FieldRow("inside", payload, {"input": taken})

    def input_slots(self, name: str) -> Mapping[str, str] | None:
        """Return what the fields of an input type hold; None for what is no input type."""
        if name not in self._inputs:
            return None
        slots = self._slots.get(name)
        if slots is None:
            slots = self._slots[name] = _slots(self._inputs[name])
        return slots


@functools.cache
def schema_table() -> SchemaTable:
    """Return the table, loaded once."""
    from egress.inspect.graphql.github.schema_data import SCHEMA  # noqa: PLC0415 - read by few

    return SchemaTable(json.loads(SCHEMA))


def _rows(written: ObjectRows) -> Mapping[str, FieldRow]:
    rows = {name: FieldRow("closed", "", {}) for name in written.get("closed", "").split()}
    rows |= {name: FieldRow("inside", "", {}) for name in written.get("leaf", "").split()}
    rows |= {name: _row("inside", text) for name, text in written.get("inside", {}).items()}
    rows |= {name: _row("stub", text) for name, text in written.get("stub", {}).items()}
    return rows


def _row(zone: Zone, text: str) -> FieldRow:
    target, _, slots = text.partition(" ")
    return FieldRow(zone, "" if target == "-" else target, _slots(slots))


def _slots(text: str) -> Mapping[str, str]:
    return {name: kind for name, _, kind in (part.partition(":") for part in text.split())}
