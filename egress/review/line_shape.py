"""Shapes: what many lines have in common, kept once.

A shape is everything in a line that a filter or a total asks for and that comes back in line after line: the
fields that the schema marks with `index`. An index then holds a number for each line instead of these values,
and a filter is asked of some hundred shapes instead of millions of lines. Values that differ from line to
line, such as paths, ids and durations, are no part of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping

from egress.review.entry import secrets_of, verdict_of, whole
from egress.review.line_fields import FIELDS_BY_NAME, INDEXED_FIELDS, TEXT_FIELDS, LineField

APART = "\x1f"
"""Stands around each name in a list of names, so that a whole name can be looked for."""

type LineShape = tuple[str | int, ...]
"""A value for each field of `INDEXED_FIELDS`."""


def shape_of(fields: Mapping[str, object]) -> LineShape:
    """The shape of a line, whatever its fields hold."""
    return tuple([read(fields) for read in _READERS])


def named(shape: LineShape) -> dict[str, str | int]:
    """The values of a shape by their names."""
    return {field.name: value for field, value in zip(INDEXED_FIELDS, shape, strict=True)}


def key_of(values: LineShape) -> bytes:
    """The same for equal values, and for no others."""
    plain = [value if isinstance(value, str) else int(value) for value in values]
    return hashlib.blake2b(json.dumps(plain).encode("ascii"), digest_size=16).digest()


def texts_of_shape(shape: LineShape) -> tuple[str, ...]:
    """The texts that a search looks through, each once."""
    found = (str(shape[place]) for place in _TEXT_PLACES)
    return tuple(dict.fromkeys(part for text in found if text for part in unmarked(text)))


def marked(names: tuple[str, ...]) -> str:
    """Names in one text, each between two marks."""
    return APART + APART.join(name.replace(APART, "") for name in names) + APART if names else ""


def unmarked(text: str) -> tuple[str, ...]:
    """The names in such a text."""
    return tuple(text.strip(APART).split(APART)) if text else ()


def _reader(field: LineField) -> Callable[[Mapping[str, object]], str | int]:
    """The function that takes the value of a field from a line."""
    name = field.attribute
    if field.name == "verdict":
        return verdict_of
    if field.name == "secret":
        return lambda fields: marked(secrets_of(fields))
    if field.match == "member":
        return lambda fields: marked(_names(fields.get(name)))
    if field.is_number:
        return lambda fields: int(fields.get(name) is True) or whole(fields.get(name))
    return lambda fields: _text(fields.get(name))


def _names(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, dict) else ()


def _text(value: object) -> str:
    # A lone surrogate is a text in JSON, and none for a database.
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else ""


_READERS = tuple(map(_reader, INDEXED_FIELDS))
_TEXT_PLACES = tuple(INDEXED_FIELDS.index(FIELDS_BY_NAME[name]) for name in TEXT_FIELDS)
