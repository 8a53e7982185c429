"""Conditions on the arguments of a call: a path into JSON, and the values that may stand there.

A path that leads nowhere fails, and so does one that two servers follow differently. Values are compared by
type: true is not 1, and the text "1" is not the number 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Final

from egress.inspect.strict_json import JsonFloat, JsonValue
from egress.rules.decide.body_predicate import FieldValue
from egress.rules.decide.globs import ValueGlob

MAX_NUMBER_CHARS: Final = 128
"""Characters of a number in a request; a longer one fits no condition."""
EVERY_ELEMENT: Final = "*"

ScalarPattern = ValueGlob | Decimal | bool


class PathEnd(Enum):
    """The end of a path that leads to no value."""

    MISSING = "missing"
    AMBIGUOUS = "ambiguous"
    """Servers follow it differently: the name stands there in other letters, or a text stands in the place
    of an object, which some servers read as JSON."""


@dataclass(frozen=True, slots=True)
class ArgumentCondition:
    """Values that may stand at a path."""

    path: tuple[str, ...]
    """Names of members and numbers of elements; `*` stands for every element."""
    values: tuple[ScalarPattern, ...] = ()
    least: Decimal | None = None
    most: Decimal | None = None
    is_absent: bool = False

    @property
    def text(self) -> str:
        """The path as it is written in a rule file."""
        return "/".join(self.path)

    def holds(self, arguments: Mapping[str, JsonValue]) -> bool:
        """Tell whether the arguments of a call fit."""
        ends = _values_at(dict(arguments), self.path)
        if self.is_absent:
            return all(end is PathEnd.MISSING for end in ends)
        return all(not isinstance(end, PathEnd) and self._fits(end) for end in ends)

    def _fits(self, value: JsonValue) -> bool:
        if self.values:
            return any(_is_like(pattern, value) for pattern in self.values)
        number = _number(value)
        return (
            number is not None
            and (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
        )

    def field(self) -> FieldValue:
        """Return the condition as it is written in a rule file."""
        if self.is_absent:
            return {"absent": True}
        if self.values:
            return [_written(pattern) for pattern in self.values]
        bounds = {"min": self.least, "max": self.most}
        return {name: _written(bound) for name, bound in bounds.items() if bound is not None}


def _values_at(value: JsonValue, path: tuple[str, ...]) -> Iterator[JsonValue | PathEnd]:
    """Yield each value to which the path leads, or why it leads to none; never nothing."""
    # Paths have a bounded number of steps, so this is not deep.
    if not path:
        yield value
        return
    step, rest = path[0], path[1:]
    match value:
        case list() if step == EVERY_ELEMENT:
            if not value:
                yield PathEnd.MISSING
            for element in value:
                yield from _values_at(element, rest)
        case list() if step.isdecimal() and step.isascii():
            if int(step) < len(value):
                yield from _values_at(value[int(step)], rest)
            else:
                yield PathEnd.MISSING
        case dict() if step != EVERY_ELEMENT:
            alike = [name for name in value if name.casefold() == step.casefold()]
            if alike == [step]:
                yield from _values_at(value[step], rest)
            else:
                yield PathEnd.AMBIGUOUS if alike else PathEnd.MISSING
        case None:
            yield PathEnd.MISSING
        case _:
            yield PathEnd.AMBIGUOUS


def _is_like(pattern: ScalarPattern, value: JsonValue) -> bool:
    match pattern:
        case bool():
            return value is pattern
        case Decimal():
            return _number(value) == pattern
        case ValueGlob():
            return isinstance(value, str) and pattern.matches(value)


def _number(value: JsonValue) -> Decimal | None:
    """Return the value of a number; None for anything else."""
    if isinstance(value, JsonFloat) and len(value.text) <= MAX_NUMBER_CHARS:
        try:
            return Decimal(value.text)
        except ArithmeticError:
            # The exponent is beyond all numbers.
            return None
    # A boolean is an integer to Python alone.
    return Decimal(value) if type(value) is int else None


def _written(pattern: ScalarPattern) -> FieldValue:
    if isinstance(pattern, ValueGlob):
        return pattern.text
    if isinstance(pattern, bool):
        return pattern
    return int(pattern) if pattern == pattern.to_integral_value() else float(pattern)
