"""Characters that may not stand in a rule file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.rules.language.text_faults import find_forbidden_character


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 1\n",
        "version: 1\r\nhosts: {}\r\n",
        "a:\tb",
        "\ufeffversion: 1",
        "# b\u00fccher \u4e2d \U0001f600",
        "# 10\u00a0%",
    ],
    ids=["empty", "plain", "crlf", "tab", "mark", "unicode", "no-break space"],
)
def test_takes_what_people_write(text: str) -> None:
    assert find_forbidden_character(text) is None


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a\nb\0", 1, 1, "the file contains a control character (U+0000) here"),
        ("\x7f", 0, 0, "the file contains a control character (U+007F) here"),
        ("a\x85b", 0, 1, "the file contains a control character (U+0085) here"),
        ("\x1f", 0, 0, "the file contains a control character (U+001F) here"),
        ("\x9f", 0, 0, "the file contains a control character (U+009F) here"),
        ("a\uffff", 0, 1, "the file contains a control character (U+FFFF) here"),
        ("# a\rb: 1\n", 0, 3, "a carriage return without a line feed"),
        ("a\r\r\n", 0, 1, "a carriage return without a line feed"),
        ("# \u202eb", 0, 2, "the file contains an invisible character (U+202E) here"),
        ("ab\u2028c", 0, 2, "the file contains an invisible character (U+2028) here"),
        ("a\ufeff", 0, 1, "the file contains an invisible character (U+FEFF) here"),
        ("a: \ud800", 0, 3, "a lone surrogate: the text is not valid Unicode"),
        ("\udfff", 0, 0, "a lone surrogate: the text is not valid Unicode"),
    ],
    ids=range(13),
)
def test_finds_what_a_reviewer_would_not_see(text: str, line: int, column: int, message: str) -> None:
    fault = find_forbidden_character(text)
    assert fault is not None
    assert (fault.line, fault.column, fault.message) == (line, column, message)


@given(st.text())
def test_names_the_first_fault_and_never_raises(text: str) -> None:
    fault = find_forbidden_character(text)
    if fault is not None:
        line = text.split("\n")[fault.line]
        assert not line[fault.column].isprintable()
        assert find_forbidden_character("\n".join(text.split("\n")[: fault.line])) is None


@pytest.mark.parametrize(
    "code",
    [
        0xAD, 0x61C, 0x180E, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2065),
        *range(0x2066, 0x206A), 0xFEFF, *range(0xFFF9, 0xFFFC),
    ],
    ids=hex,
)  # fmt: skip
def test_nothing_stands_here_that_cannot_be_seen(code: int) -> None:
    assert find_forbidden_character(f"a{chr(code)}") is not None
