"""The interface of a predicate on facts of a request body.

As with the other predicates, allow and deny fail closed in opposite ways: an allow rule covers an item only
where it says so, and a deny rule matches in doubt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

FieldValue = str | int | float | bool | list["FieldValue"] | dict[str, "FieldValue"]


@dataclass(frozen=True, slots=True)
class BodyMiss:
    """Why an allow rule does not cover an item."""

    code: str
    """The code of the denial, where no other rule covers the item."""
    text: str
    """The predicate that failed, for `explain`."""
    nearness: int = 0
    """How far the item came, to tell the rule that it nearly fits from the others."""
    about: str = ""
    """The part of the item that the rule does not cover; it is shown behind the item."""


class BodyPredicate(Protocol):
    """Conditions of a rule on what a body says. Values are frozen and can be hashed."""

    @property
    def kind(self) -> str:
        """The name of its kind of body, and its key in a rule."""
        ...

    def expanded(self, item: object) -> tuple[object, ...] | None:
        """Return the items that stand behind one that only names them; None where the rule knows no such."""
        ...

    def misses(self, item: object) -> BodyMiss | None:
        """Return why an allow rule does not cover the item; None where it does."""
        ...

    def denies(self, item: object) -> bool:
        """Tell whether a deny rule is about the item; doubt means yes."""
        ...

    def fields(self) -> Mapping[str, FieldValue]:
        """Return the predicate as it is written in a rule file."""
        ...
