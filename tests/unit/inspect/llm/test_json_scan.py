"""Fields of JSON that streams by: those at the top, whatever stands within the others."""

from __future__ import annotations

import json

import pytest

from egress.inspect.llm.json_scan import MAX_SCANNED_FIELD_BYTES, JsonFieldScan, parse_json
from egress.inspect.strict_json import JsonFloat, JsonValue

WANTED = frozenset({"usage", "model"})


def scan(*pieces: bytes) -> list[tuple[str, JsonValue]]:
    found: list[tuple[str, JsonValue]] = []
    scanner = JsonFieldScan(WANTED, lambda name, value: found.append((name, value)))
    for piece in pieces:
        scanner.feed(piece)
    assert scanner.size == sum(map(len, pieces))
    return found


ANSWER = {
    "id": 'x"usage": {\\',
    "content": [{"type": "tool_use", "input": {"usage": {"output_tokens": 0}, "model": "fake"}}],
    "model": "claude",
    "text": 'a "quoted\\" one',
    "usage": {"input_tokens": 3, "inner": {"list": [1, 2, {"usage": 4}]}},
    "stop": None,
}


@pytest.mark.parametrize("indent", [None, 2])
def test_only_fields_at_the_top_are_found_however_the_bytes_are_cut(indent: int | None) -> None:
    data = json.dumps(ANSWER, indent=indent).encode()
    expected = [("model", "claude"), ("usage", ANSWER["usage"])]
    assert scan(data) == expected
    assert scan(*map(bytes, zip(data))) == expected
    for cut in range(len(data)):
        assert scan(data[:cut], data[cut:]) == expected


def test_an_array_of_objects_gives_the_fields_of_each() -> None:
    data = b'[{"usage": {"a": 1}},\n{"x": [{"usage": 9}], "usage": {"a": 2}}\n]'
    assert scan(data) == [("usage", {"a": 1}), ("usage", {"a": 2})]
    assert scan(*map(bytes, zip(data))) == [("usage", {"a": 1}), ("usage", {"a": 2})]


def test_an_escaped_name_is_the_name_that_it_stands_for() -> None:
    assert scan(b'{"us\\u0061ge": 1}') == [("usage", 1)]


def test_a_long_field_is_as_good_as_missing_and_the_next_one_is_found() -> None:
    long = b"[" + b"1," * MAX_SCANNED_FIELD_BYTES + b"1]"
    assert scan(b'{"usage": ' + long + b', "model": "m"}') == [("model", "m")]
    name = b"n" * (MAX_SCANNED_FIELD_BYTES + 1)
    assert scan(b'{"' + name + b'": 1, "model": "m"}') == [("model", "m")]


@pytest.mark.parametrize(
    "data", [b"", b"null", b'"usage"', b"]}]}", b'{"usage": }', b'{"usage" 1}', b"\xff\x00"]
)
def test_bytes_that_are_no_object_lead_to_nothing(data: bytes) -> None:
    assert scan(data) == []


def test_fractions_stay_texts_and_constants_are_refused() -> None:
    assert parse_json(b'{"a": 1.50}') == {"a": JsonFloat("1.50")}
    for text in (b"NaN", b"Infinity", b"[" * 100_000):
        with pytest.raises(ValueError):  # noqa: PT011 - of any text
            parse_json(text)
