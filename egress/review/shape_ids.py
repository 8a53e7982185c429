"""Numbers for shapes and their groups, given once and kept in the index.

A sandbox can make as many shapes as it likes, by asking for hosts that nobody has. So what is held in
memory is bounded, and the rest is looked up again.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3

from egress.review.fast_parse import Form, shape_of_form
from egress.review.line_shape import LineShape

MOST = 65_536
_GROUP = ("event", "sandbox", "profile", "host", "verdict", "code", "rule", "secrets", "observed")
"""What totals are kept by: a filter or a total that asks for nothing else is answered from roll-ups."""


class ShapeIds:
    """The numbers of the shapes of one index. For the one process that writes it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._pieces: dict[tuple[int, bytes], int] = {}
        self._next = 0
        self._known: dict[tuple[int, ...] | LineShape, tuple[int, int]] = {}

    def __call__(self, form: Form | LineShape) -> tuple[int, int]:
        """The numbers of a shape and of its group. Raises `ValueError` for pieces that make no shape."""
        key = self._key(form) if isinstance(form, Form) else form
        found = self._known.get(key)
        if found is None:
            shape = shape_of_form(form) if isinstance(form, Form) else form
            if len(self._known) >= MOST:
                self._known.clear()
            found = self._known[key] = self._number(shape)
        return found

    def _key(self, form: Form) -> tuple[int, ...]:
        pieces = self._pieces
        try:
            return (
                pieces[0, form[0]],
                pieces[1, form[1]],
                pieces[2, form[2]],
                pieces[3, form[3]],
            )
        except KeyError:
            if len(pieces) >= MOST:
                pieces.clear()
            return tuple([self._piece(place, piece) for place, piece in enumerate(form)])

    def _piece(self, place: int, piece: bytes) -> int:
        # A number is never given twice, so that what is forgotten here is not confused there.
        self._next += 1
        return self._pieces.setdefault((place, piece), self._next)

    def _number(self, shape: LineShape) -> tuple[int, int]:
        found = self._connection.execute("SELECT id, grp FROM shape WHERE key = ?", (shape.key,)).fetchone()
        if found is not None:
            return (int(found[0]), int(found[1]))
        group = self._group(tuple(getattr(shape, name) for name in _GROUP))
        names = ", ".join(("key", "grp", *shape._fields))
        marks = ", ".join("?" * (len(shape) + 2))
        cursor = self._connection.execute(
            f"INSERT INTO shape ({names}) VALUES ({marks})",  # noqa: S608 - names of our own
            (shape.key, group, *shape),
        )
        return (int(cursor.lastrowid or 0), group)

    def _group(self, values: tuple[str | int, ...]) -> int:
        key = hashlib.blake2b(json.dumps(values).encode("ascii"), digest_size=16).digest()
        found = self._connection.execute("SELECT id FROM grp WHERE key = ?", (key,)).fetchone()
        if found is not None:
            return int(found[0])
        names = ", ".join(("key", *_GROUP))
        marks = ", ".join("?" * (len(_GROUP) + 1))
        cursor = self._connection.execute(
            f"INSERT INTO grp ({names}) VALUES ({marks})",  # noqa: S608 - names of our own
            (key, *values),
        )
        return int(cursor.lastrowid or 0)
