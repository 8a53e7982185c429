"""What is missing in a manifest is made, and a value of another type is an error."""

from __future__ import annotations

import pytest

from egress.errors import ContentError
from egress.kubernetes.value_edits import Fields, containers, fill, mapping, put, sequence
from egress.rules.language.document import MissingValue, Value


def test_a_mapping_and_a_list_are_made_where_there_are_none() -> None:
    parent: Fields = {"null": MissingValue()}
    mapping(parent, "null")["a"] = 1
    sequence(parent, "new").append(2)
    assert parent == {"null": {"a": 1}, "new": [2]}


def test_a_value_of_another_type_is_an_error() -> None:
    with pytest.raises(ContentError, match="`a` is no mapping"):
        mapping({"a": 1}, "a")
    with pytest.raises(ContentError, match="`a` is no list"):
        sequence({"a": {}}, "a")


def test_a_value_that_is_there_is_not_replaced() -> None:
    parent: Fields = {"a": False}
    fill(parent, "a", True)
    fill(parent, "b", True)
    assert parent == {"a": False, "b": True}


def test_an_item_takes_the_place_of_all_others_with_its_name() -> None:
    items: list[Value] = [{"name": "a", "value": 1}, "text", {"name": "b"}, {"name": "a", "value": 2}]
    put(items, {"name": "a", "value": 3})
    put(items, {"name": "c"})
    assert items == [{"name": "a", "value": 3}, "text", {"name": "b"}, {"name": "c"}]


def test_init_containers_come_first() -> None:
    spec: Fields = {"containers": [{"name": "b"}], "initContainers": [{"name": "a"}, "no container"]}
    assert [each["name"] for each in containers(spec)] == ["a", "b"]
