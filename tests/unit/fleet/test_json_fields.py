"""Fields of an object are taken once, with the type they have to have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Literal

import pytest

from egress.fleet.errors import FleetProtocolError
from egress.fleet.json_fields import JsonFields
from egress.runtime.spec import Terminal

VALUES: dict[str, object] = {
    "text": "a", "whole": 1, "number": 1.5, "true": True, "none": None, "list": ["a", "b"], "wholes": [1, 2],
    "object": {"a": "b"}, "objects": [{}, {}], "size": {"columns": 3, "rows": 4},
}  # fmt: skip

RIGHT: list[tuple[Callable[[JsonFields], object], object]] = [
    (lambda f: f.text("text"), "a"),
    (lambda f: f.take("text", str | None), "a"),
    (lambda f: f.take("none", str | None), None),
    (lambda f: f.integer("whole"), 1),
    (lambda f: f.take("none", int | None), None),
    (lambda f: f.number("whole"), 1.0),
    (lambda f: f.number("number"), 1.5),
    (lambda f: f.take("none", float | None), None),
    (lambda f: f.is_true("true"), True),
    (lambda f: f.take("list", tuple[str, ...]), ("a", "b")),
    (lambda f: f.integers("wholes"), (1, 2)),
    (lambda f: f.values("object"), {"a": "b"}),
    (lambda f: f.inner("object").text("a"), "b"),
    (lambda f: f.take("none", Terminal | None), None),
    (lambda f: len(f.inners("objects")), 2),
    (lambda f: f.take("size", Terminal), Terminal(columns=3, rows=4)),
    (lambda f: f.take("text", Literal["a", "b"]), "a"),
    (lambda f: f.take("text", Path), Path("a")),
]

WRONG: list[Callable[[JsonFields], object]] = [
    lambda f: f.text("missing"),
    lambda f: f.text("whole"),
    lambda f: f.text("none"),
    lambda f: f.integer("true"),
    lambda f: f.integer("number"),
    lambda f: f.number("true"),
    lambda f: f.number("text"),
    lambda f: f.is_true("whole"),
    lambda f: f.take("wholes", tuple[str, ...]),
    lambda f: f.take("text", tuple[str, ...]),
    lambda f: f.integers("list"),
    lambda f: f.values("list"),
    lambda f: f.inner("text"),
    lambda f: f.inners("list"),
    lambda f: f.take("text", Literal["b"]),
    lambda f: f.take("whole", Literal["b"]),
    lambda f: f.take("text", datetime),
    lambda f: f.take("object", Terminal),
    lambda f: f.take("none", Path),
]


@pytest.mark.parametrize(("read", "value"), RIGHT, ids=map(str, range(len(RIGHT))))
def test_a_field_is_read_as_what_it_is(read: Callable[[JsonFields], object], value: object) -> None:
    assert read(JsonFields(VALUES)) == value


@pytest.mark.parametrize("read", WRONG, ids=map(str, range(len(WRONG))))
def test_a_field_of_another_type_is_refused(read: Callable[[JsonFields], object]) -> None:
    with pytest.raises(FleetProtocolError):
        read(JsonFields(VALUES))


def test_nothing_is_left_over_or_read_twice() -> None:
    fields = JsonFields({"a": "1", "b": "2"})
    fields.text("a")
    with pytest.raises(FleetProtocolError):
        fields.end()
    with pytest.raises(FleetProtocolError):
        fields.text("a")
    fields.text("b")
    fields.end()


@pytest.mark.parametrize("value", [None, [], "text", 1])
def test_what_is_no_object_has_no_fields(value: object) -> None:
    with pytest.raises(FleetProtocolError):
        JsonFields(value)


def test_an_annotation_without_a_rule_is_a_mistake() -> None:
    with pytest.raises(TypeError):
        JsonFields({"a": "1"}).take("a", bytes)
