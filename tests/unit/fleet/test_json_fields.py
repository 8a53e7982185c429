"""Fields of an object are taken once, with the type they have to have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from egress.fleet.errors import FleetProtocolError
from egress.fleet.json_fields import JsonFields

VALUES: dict[str, object] = {
    "text": "a", "whole": 1, "number": 1.5, "true": True, "none": None, "list": ["a", "b"], "wholes": [1, 2],
    "object": {"a": "b"}, "objects": [{}, {}],
}  # fmt: skip

RIGHT: list[tuple[Callable[[JsonFields], object], object]] = [
    (lambda f: f.text("text"), "a"),
    (lambda f: f.text_or_none("text"), "a"),
    (lambda f: f.text_or_none("none"), None),
    (lambda f: f.integer("whole"), 1),
    (lambda f: f.integer_or_none("none"), None),
    (lambda f: f.number("whole"), 1.0),
    (lambda f: f.number("number"), 1.5),
    (lambda f: f.number_or_none("none"), None),
    (lambda f: f.is_true("true"), True),
    (lambda f: f.texts("list"), ("a", "b")),
    (lambda f: f.integers("wholes"), (1, 2)),
    (lambda f: f.values("object"), {"a": "b"}),
    (lambda f: f.inner("object").text("a"), "b"),
    (lambda f: f.inner_or_none("none"), None),
    (lambda f: len(f.inners("objects")), 2),
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
    lambda f: f.texts("wholes"),
    lambda f: f.texts("text"),
    lambda f: f.integers("list"),
    lambda f: f.values("list"),
    lambda f: f.inner("text"),
    lambda f: f.inners("list"),
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
