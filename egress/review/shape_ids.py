"""Numbers for shapes and their groups, given once and kept in the index.

A sandbox can make as many shapes as it likes, by asking for hosts that do not exist. So the number of shapes
in memory is bounded; the index knows the others.
"""

from __future__ import annotations

import sqlite3
from sys import intern

from egress.review.line_fields import INDEXED_FIELDS, TOTALS_FIELDS
from egress.review.line_shape import LineShape, key_of, named

MAX_KEPT = 65_536


class ShapeIds:
    """The numbers of the shapes of one index. For the one process that writes it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[LineShape, tuple[int, int]] = {}

    def __call__(self, shape: LineShape) -> tuple[int, int]:
        """The numbers of a shape and of its group."""
        found = self._known.get(shape)
        if found is None:
            if len(self._known) >= MAX_KEPT:
                self._known.clear()
            # Hosts, rules and sandboxes are in many shapes: one text each is enough.
            kept = tuple(intern(value) if isinstance(value, str) else value for value in shape)
            found = self._known[kept] = self._number(kept)
        return found

    def _number(self, shape: LineShape) -> tuple[int, int]:
        found = self._connection.execute(
            "SELECT id, grp FROM shape WHERE key = ?", (key_of(shape),)
        ).fetchone()
        if found is not None:
            return (int(found[0]), int(found[1]))
        values = named(shape)
        group = self._group(tuple(values[name] for name in TOTALS_FIELDS))
        columns = ("key", "grp", *(field.name for field in INDEXED_FIELDS))
        return self._insert("shape", columns, (key_of(shape), group, *shape)), group

    def _group(self, values: LineShape) -> int:
        found = self._connection.execute("SELECT id FROM grp WHERE key = ?", (key_of(values),)).fetchone()
        return (
            int(found[0])
            if found
            else self._insert("grp", ("key", *TOTALS_FIELDS), (key_of(values), *values))
        )

    def _insert(self, table: str, columns: tuple[str, ...], values: tuple[bytes | str | int, ...]) -> int:
        marks = ", ".join("?" * len(values))
        query = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - names of our own
        return int(self._connection.execute(query, values).lastrowid or 0)
