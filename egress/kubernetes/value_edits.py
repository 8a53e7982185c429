"""Edits of a manifest that was read: what is missing is made, and what somebody wrote stays.

A value of another type than the field has is an error, since nothing can be written beside it.
"""

from __future__ import annotations

from copy import deepcopy

from egress.errors import ContentError
from egress.rules.language.document import MissingValue, Value

type Fields = dict[str, Value]


def containers(spec: Fields) -> list[Fields]:
    """Return the init containers of a pod, then its other ones."""
    return [*items(spec, "initContainers"), *items(spec, "containers")]


def items(parent: Fields, key: str) -> list[Fields]:
    """Return the mappings in a list, which may be missing."""
    found = parent.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def put(placed: list[Value], item: Fields) -> None:
    """Put an item with a name into a list, in the place of all others with its name."""
    places = [
        number
        for number, other in enumerate(placed)
        if isinstance(other, dict) and other.get("name") == item["name"]
    ]
    # Of two variables with one name the last one counts.
    for number in reversed(places[1:]):
        del placed[number]
    first = places[0] if places else len(placed)
    placed[first : first + 1] = [deepcopy(item)]


def mapping(parent: Fields, key: str) -> Fields:
    """Return the mapping below a key, made if it is missing."""
    found = parent.get(key)
    if isinstance(found, dict):
        return found
    if not is_absent(found):
        raise ContentError(f"`{key}` is no mapping", "`kubectl apply --dry-run=server` shows the same")
    made: Fields = {}
    parent[key] = made
    return made


def sequence(parent: Fields, key: str) -> list[Value]:
    """Return the list below a key, made if it is missing."""
    found = parent.get(key)
    if isinstance(found, list):
        return found
    if not is_absent(found):
        raise ContentError(f"`{key}` is no list", "`kubectl apply --dry-run=server` shows the same")
    made: list[Value] = []
    parent[key] = made
    return made


def fill(parent: Fields, key: str, value: Value) -> None:
    """Write a value where there is none."""
    if is_absent(parent.get(key)):
        parent[key] = value


def is_absent(value: Value | None) -> bool:
    """Report whether a field is missing or null."""
    return value is None or isinstance(value, MissingValue)
