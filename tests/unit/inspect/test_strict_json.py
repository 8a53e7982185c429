"""JSON in one reading: what all readers take alike is read, and everything else is refused."""

from __future__ import annotations

import json

import pytest

from egress.inspect.strict_json import (
    MAX_INTEGER_DIGITS,
    MAX_JSON_DEPTH,
    MAX_JSON_VALUES,
    JsonFloat,
    StrictJsonError,
    read_strict_json,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, true, null, "x"]}', {"a": [1, True, None, "x"]}),
        (' \t\r\n"é" ', "é"),
        (r'"\ud83d\ude00"', "😀"),
        (r'"\\ud800 \\\ud83d\ude00"', "\\ud800 \\😀"),
        ('["' + "9" * (MAX_INTEGER_DIGITS + 1) + '", "a:b"]', None),
        ("-0", 0),
        ("1.50", JsonFloat("1.50")),
        ("1e9", JsonFloat("1e9")),
        ('{"a": {"k": 1}, "b": {"k": 2}}', {"a": {"k": 1}, "b": {"k": 2}}),
        ('{"k": 1, "K": 2}', {"k": 1, "K": 2}),
        ('"[[[{{{,,,"', "[[[{{{,,,"),
        (r'"a\"[b"', 'a"[b'),
        ("9" * MAX_INTEGER_DIGITS, int("9" * MAX_INTEGER_DIGITS)),
        ("[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH, None),
    ],
)
def test_plain_json_is_read(text: str, value: object) -> None:
    found = read_strict_json(text.encode())
    assert found == (json.loads(text) if value is None else value)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a":1,"a":1}', "json.duplicate_key"),
        (rb'{"a":1,"\u0061":1}', "json.duplicate_key"),
        (b'[{"b":[{"a":1,"a":1}]}]', "json.duplicate_key"),
        (b"\xef\xbb\xbf1", "body.json"),
        ("é".encode("latin-1"), "body.json"),
        (b'"\xed\xa0\x80"', "body.json"),
        (rb'"\ud800"', "body.json"),
        (rb'{"\uDFFF": 1}', "body.json"),
        (rb'["a\ud800b"]', "body.json"),
        (b"NaN", "body.json"),
        (b"-Infinity", "body.json"),
        (b"[Infinity]", "body.json"),
        (b"", "body.json"),
        (b"1 2", "body.json"),
        (b"[1,]", "body.json"),
        (b"01", "body.json"),
        (b"'a'", "body.json"),
        (b'"a\nb"', "body.json"),
        (b"{a:1}", "body.json"),
        (b"/**/1", "body.json"),
        ("\N{ARABIC-INDIC DIGIT ONE}".encode(), "body.json"),
        (b"\x0c1", "body.json"),
        (b"9" * (MAX_INTEGER_DIGITS + 1), "body.json"),
        (b"[" * (MAX_JSON_DEPTH + 1) + b"]" * (MAX_JSON_DEPTH + 1), "body.json"),
        (b"[" * 200_000, "body.json"),
        (b"[" + b"1," * MAX_JSON_VALUES + b"1]", "body.json"),
        (rb'"\\\ud800\u0041"', "body.json"),
        (rb'"\udc00\ud800"', "body.json"),
        (rb'"\ud83d\ud83d\ude00"', "body.json"),
        (rb'"\ud83d\\ude00"', "body.json"),
        (b"[" + b"9" * (MAX_INTEGER_DIGITS + 1) + b"]", "body.json"),
        (b'[{"a":{"b":1,"c":2},"d":[{"b":1},{"b":1,"b":1}]}]', "json.duplicate_key"),
        # A text that never ends is looked at once, not from each of its quotes: that would take minutes.
        (b'"' + rb"\"" * 128_000, "body.json"),
        (b'"' + rb"\"" * 128_000 + b"\\", "body.json"),
    ],
)
def test_what_readers_take_differently_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(StrictJsonError) as caught:
        read_strict_json(data)
    assert caught.value.code == code
    assert caught.value.detail


def test_a_fraction_is_a_value() -> None:
    assert {JsonFloat("1.5"), JsonFloat("1.5")} == {JsonFloat("1.5")}
    assert JsonFloat("1.5") != JsonFloat("1.50")
    assert JsonFloat("1.5") != "1.5"
    assert repr(JsonFloat("1.5")) == "JsonFloat('1.5')"
