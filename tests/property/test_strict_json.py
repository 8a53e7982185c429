"""Strict JSON against the reader of Python: where both read a body, they read the same."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from egress.inspect.strict_json import JsonFloat, JsonValue, StrictJsonError, read_strict_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def loose(value: JsonValue) -> object:
    """The value as Python's own reader has it."""
    if isinstance(value, JsonFloat):
        return float(value.text)
    if isinstance(value, list):
        return [loose(each) for each in value]
    return {name: loose(each) for name, each in value.items()} if isinstance(value, dict) else value


@given(VALUES, st.booleans())
def test_every_plain_value_is_read_as_it_was_written(value: object, is_ascii: bool) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii).encode()
    assert loose(read_strict_json(data)) == json.loads(data)


def read(data: bytes) -> tuple[str, JsonValue]:
    """The code of the refusal, empty for none, and the value."""
    try:
        return "", read_strict_json(data)
    except StrictJsonError as error:
        return error.code, None


@given(st.binary(max_size=40) | st.text('[]{}",:\\u0dD8901eE.+-tfn al\n', max_size=40).map(str.encode))
def test_any_bytes_are_read_alike_or_refused(data: bytes) -> None:
    code, found = read(data)
    assert code in {"", "body.json", "json.duplicate_key"}
    assert code or loose(found) == json.loads(data)


@given(st.dictionaries(TEXTS, st.integers(), min_size=1, max_size=4), st.data())
def test_a_key_that_stands_twice_is_always_refused(pairs: dict[str, int], data: st.DataObject) -> None:
    again = data.draw(st.sampled_from(sorted(pairs)))
    spelled = "".join(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else char for char in again)
    text = json.dumps(pairs, ensure_ascii=False)[:-1] + f', "{spelled}": 1}}'
    assert read(text.encode())[0] == "json.duplicate_key"
