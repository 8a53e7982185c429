"""A cursor over one Kubernetes object: values by their keys, and the path to each.

Absent and null are the same to Kubernetes, and so they are here. A value of the wrong type is a fault, since
a reader that skips it would take a broken fence for none, or the other way round.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from egress.rules.language.document import MissingValue, Value, ValuePath

_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class ShapeFault:
    """A value that has another type than the API server takes at this path."""

    path: ValuePath
    expected: str


@dataclass(frozen=True, slots=True)
class ManifestNode:
    """A value at a path; `faults` is shared by all nodes of an object."""

    value: Value
    path: ValuePath
    faults: list[ShapeFault]

    @property
    def is_missing(self) -> bool:
        return isinstance(self.value, MissingValue)

    def at(self, *keys: str) -> ManifestNode:
        """Return the node below these keys; a missing one if any of them is missing."""
        node = self
        for key in keys:
            node = node._below(key)
        return node

    def _below(self, key: str) -> ManifestNode:
        path = (*self.path, key)
        if not isinstance(self.value, dict):
            self._expect("a mapping")
            return ManifestNode(MissingValue(), path, self.faults)
        return ManifestNode(self.value.get(key, MissingValue()), path, self.faults)

    def entries(self) -> dict[str, ManifestNode]:
        """Return the nodes of a mapping by their keys."""
        if not isinstance(self.value, dict):
            self._expect("a mapping")
            return {}
        return {key: self._below(key) for key in self.value}

    def items(self) -> list[ManifestNode]:
        """Return the nodes of a list."""
        if not isinstance(self.value, list):
            self._expect("a list")
            return []
        return [
            ManifestNode(item, (*self.path, number), self.faults) for number, item in enumerate(self.value)
        ]

    def text(self) -> str:
        """Return a text; empty if it is missing."""
        if not isinstance(self.value, str):
            self._expect("text")
            return ""
        return self.value

    def flag(self) -> bool | None:
        """Return a boolean; None if it is missing."""
        if not isinstance(self.value, bool):
            self._expect("true or false")
            return None
        return self.value

    def number(self) -> int | None:
        """Return a whole number; None if it is missing."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self._expect("a whole number")
            return None
        return self.value

    def texts(self) -> tuple[str, ...]:
        """Return the items of a list of texts."""
        return tuple(item.text() for item in self.items())

    def text_map(self) -> dict[str, str]:
        """Return a mapping of texts, such as labels."""
        return {key: node.text() for key, node in self.entries().items()}

    def _expect(self, expected: str) -> None:
        if not self.is_missing:
            self.faults.append(ShapeFault(self.path, expected))


def path_text(path: ValuePath) -> str:
    """Write a path as people do: `spec.containers[0].image`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text or "the object"
