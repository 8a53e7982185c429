"""A cursor that takes absent and null for the same, and notes values of a wrong type."""

from __future__ import annotations

import pytest

from egress.kubernetes.manifest_node import ManifestNode, ShapeFault, path_text
from egress.rules.language.document import MissingValue, Value


def node(value: Value) -> ManifestNode:
    return ManifestNode(value, (), [])


def test_absent_and_null_are_the_same() -> None:
    empty: list[Value] = [{}, {"spec": MissingValue()}]
    for value in empty:
        spec = node(value).at("spec")
        assert spec.is_missing
        assert (spec.text(), spec.flag(), spec.number(), spec.items(), spec.entries()) == (
            "",
            None,
            None,
            [],
            {},
        )
        assert spec.at("a", "b").path == ("spec", "a", "b")
        assert spec.faults == []


@pytest.mark.parametrize(
    ("value", "read", "expected"),
    [
        (1, "text", "text"),
        ("yes", "flag", "true or false"),
        (True, "number", "a whole number"),
        ({}, "items", "a list"),
        ([], "entries", "a mapping"),
        ([1], "texts", "text"),
    ],
)
def test_a_value_of_a_wrong_type_is_noted(value: Value, read: str, expected: str) -> None:
    found = node({"a": value}).at("a")
    getattr(found, read)()
    assert [fault.expected for fault in found.faults] == [expected]


def test_a_step_into_a_text_is_noted_at_the_text() -> None:
    found = node({"spec": "x"})
    assert found.at("spec", "containers").is_missing
    assert found.faults == [ShapeFault(("spec",), "a mapping")]


def test_a_path_is_written_as_people_do() -> None:
    assert path_text(("spec", "containers", 0, "image")) == "spec.containers[0].image"
    assert path_text(("labels", "app.kubernetes.io/name")) == 'labels["app.kubernetes.io/name"]'
    assert path_text(()) == "the object"
