"""The interface of a predicate on facts of a request body.

As with the other predicates, allow and deny fail closed in opposite ways: an allow rule covers an item only
where it says so, and a deny rule matches in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from egress.rules.decide.globs import PathGlob

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

    @property
    def closes(self) -> tuple[PathGlob, ...]:
        """Paths besides its own on which a plain rule would open what this predicate is about."""
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

    def with_texts(self, change: Callable[[str], str]) -> Self:
        """Return the predicate with each text changed in which a placeholder may stand."""
        ...
