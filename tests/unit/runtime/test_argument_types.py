"""The type of an argument is checked, and its value is never quoted."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from egress.runtime.argument_types import (
    check_number,
    check_text,
    check_text_mapping,
    check_type,
    check_whole_number,
)
from egress.runtime.errors import SpecTypeError


def test_what_is_expected_passes() -> None:
    check_text("name", "")
    check_number("cpus", 0.5)
    check_number("cpus", 2)
    check_whole_number("pids", 2)
    check_text_mapping("env", MappingProxyType({"A": "b"}))
    check_type("size", "2g", (str, int), "a size")


@pytest.mark.parametrize("value", [None, 5, b"secret", ["secret"], True])
def test_what_is_no_text_is_named_by_its_type_alone(value: object) -> None:
    with pytest.raises(SpecTypeError) as caught:
        check_text("name", value)
    kind = "None" if value is None else f"of type {type(value).__name__}"
    assert caught.value.message == f"name is {kind}, and not a string"
    assert caught.value.hint == "pass a string"


def test_a_boolean_is_no_number() -> None:
    for check in (check_number, check_whole_number):
        with pytest.raises(SpecTypeError, match="of type bool"):
            check("count", True)
    with pytest.raises(SpecTypeError, match="not a whole number"):
        check_whole_number("count", 2.0)


@pytest.mark.parametrize("values", [["A=secret"], "A=secret", {5: "secret"}, {"A": 5}, {"A": None}])
def test_a_mapping_holds_text_on_both_sides(values: object) -> None:
    with pytest.raises(SpecTypeError, match=r"^env") as caught:
        check_text_mapping("env", values)
    assert "secret" not in f"{caught.value} {caught.value.hint}"
