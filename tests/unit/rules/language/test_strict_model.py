"""Shapes that take no key that they do not know, and convert nothing."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Tag, ValidationError

from egress.rules.language.strict_model import Model, by_exact_type


class Shape(Model):
    number: int = 0
    either: Annotated[
        Annotated[int, Tag("a number")] | Annotated[str, Tag("text")],
        by_exact_type({int: "a number", str: "text"}),
    ] = 0


@pytest.mark.parametrize("value", [{"nmber": 1}, {"number": "1"}, {"either": True}, {"either": 1.0}])
def test_refuses_what_it_does_not_know(value: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Shape.model_validate(value)


@pytest.mark.parametrize("value", [{"number": 1}, {"either": 1}, {"either": "1"}])
def test_takes_the_exact_types(value: dict[str, object]) -> None:
    Shape.model_validate(value)
