"""A block of fields is read in full or refused."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from egress.errors import WireError
from egress.http1.fields import (
    LOOKALIKE_FIELDS,
    MAX_KEPT_CHARS,
    ReadFields,
    diagnose,
    find_fault,
    read_fields,
    refuse_repeated,
)
from egress.types import Headers

EGRESS = Path(__file__).parents[3] / "egress"


def read(text: str, limit: int = 100) -> Headers:
    return read_fields(text, 0, limit)[0]


def test_what_was_read_says_so_until_it_is_changed() -> None:
    """Only fields that nobody has touched since may be taken for checked."""
    headers, mapping = read_fields("A: 1\r\nB: 2\r\na: 3\r\n\r\n", 0, 10)
    assert type(headers) is ReadFields
    assert headers.by_name == mapping == {"a": "3", "b": "2"}
    more: Headers = (("x", "a\r\nb: c"),)
    for changed in (headers[:2], headers + more, more + headers, (*headers,), headers * 2):
        assert type(changed) is tuple


def test_nothing_else_makes_what_counts_as_read() -> None:
    """The type is a promise of `read_fields`; a second maker would have to keep it too."""
    makers = [
        (path.relative_to(EGRESS).as_posix(), node.lineno)
        for path in EGRESS.rglob("*.py")
        if "ReadFields" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and "ReadFields" in ast.unparse(node)
    ]
    assert [path for path, _ in makers] == ["http1/fields.py"], makers


def test_names_become_lower_case_and_values_lose_their_blanks() -> None:
    assert read("A-b: c\r\nD:\t e\tFX \t\r\nG:\r\nH:i\r\n\r\n") == (
        ("a-b", "c"),
        ("d", "e\tFX"),
        ("g", ""),
        ("h", "i"),
    )


def test_order_and_repetition_are_kept() -> None:
    headers, mapping = read_fields("A: 1\r\nB: 2\r\na: 3\r\n\r\n", 0, 10)
    assert headers == (("a", "1"), ("b", "2"), ("a", "3"))
    assert mapping == {"a": "3", "b": "2"}


def test_a_byte_is_a_character() -> None:
    assert read("A: \xff\x80\r\n\r\n") == (("a", "\xff\x80"),)


def test_no_fields_are_fields_too() -> None:
    assert read("\r\n") == ()


def test_reads_from_where_the_first_line_ends() -> None:
    assert read_fields("GET: x\r\nA: b\r\n\r\n", 8, 10)[0] == (("a", "b"),)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("A : b", "A header name is followed by white space."),
        ("A\t: b", "A header name is followed by white space."),
        (" A: b", "A header field is folded over several lines."),
        ("X: y\r\n\tA: b", "A header field is folded over several lines."),
        ("A: b\r\n ", "A header field is folded over several lines."),
        ("A", "A header line is malformed."),
        (": b", "A header line is malformed."),
        ("A(: b", "A header line is malformed."),
        ("\xe9: b", "A header line is malformed."),
        ("A: b\nC: d", "A line ends in a bare CR or LF."),
        ("A: b\rC: d", "A line ends in a bare CR or LF."),
        ("A: b\r\r", "A line ends in a bare CR or LF."),
        ("A: \x00", "The head contains a control byte."),
        ("A: b\x0b", "The head contains a control byte."),
        ("A\x00: b", "The head contains a control byte."),
        ("A: \x7f", "The head contains a control byte."),
    ],
)
def test_names_what_is_wrong_with_a_line(line: str, message: str) -> None:
    with pytest.raises(WireError) as refusal:
        read(f"First: x\r\n{line}\r\nLast: x\r\n\r\n")
    assert (refusal.value.message, refusal.value.status) == (message, 400)


@pytest.mark.parametrize("name", sorted(LOOKALIKE_FIELDS))
def test_refuses_names_that_imitate_framing(name: str) -> None:
    with pytest.raises(WireError, match="imitates"):
        read(f"{name.upper()}: 5\r\n\r\n")


def test_an_underscore_elsewhere_is_no_imitation() -> None:
    assert read("x_content_length: 5\r\n\r\n") == (("x_content_length", "5"),)
    assert read("contentxlength: 5\r\n\r\n") == (("contentxlength", "5"),)


def test_bounds_the_number_of_fields() -> None:
    block = "A: b\r\n" * 3 + "\r\n"
    assert len(read(block, limit=3)) == 3
    with pytest.raises(WireError) as refusal:
        read(block, limit=2)
    assert refusal.value.status == 431


def test_refuses_the_repetition_of_named_fields_only() -> None:
    headers, mapping = read_fields("Host: a\r\nA: 1\r\nA: 2\r\n\r\n", 0, 10)
    refuse_repeated(headers, mapping, ("host",))
    with pytest.raises(WireError, match="repeated"):
        refuse_repeated(headers, mapping, ("host", "a"))


def test_finds_a_fault_only_in_the_window_it_is_given() -> None:
    assert find_fault(b"ab\x00cd", 3) is None
    assert find_fault(b"ab\x00cd", 0, 2) is None
    assert find_fault(b"ab\x00cd") is not None
    assert find_fault(b"\x00bcd") is not None


def test_a_carriage_return_waits_for_its_line_feed() -> None:
    assert find_fault(b"ab\r") is None
    assert find_fault(b"ab\rc") is not None


def test_an_empty_line_ahead_is_named_first() -> None:
    fault = find_fault(b"\r\n\x00")
    assert fault is not None
    assert fault.message == diagnose("\r\n\x00").message == "An empty line precedes the message."


def test_the_same_text_is_not_read_twice() -> None:
    """Clients repeat their heads; what is said of one holds for its like, wherever it stands in the text."""
    before = read_fields("A: 1\r\nB: 2\r\n\r\n", 0, 10)[0]
    again, mapping = read_fields("GET\r\nA: 1\r\nB: 2\r\n\r\n", 5, 10, before)
    assert again is before
    assert mapping is before.by_name


@pytest.mark.parametrize("text", ["a: 1\r\nB: 2\r\n\r\n", "A: 1 \r\nB: 2\r\n\r\n", "A: 1\r\n\r\n", "\r\n"])
def test_text_that_differs_at_all_is_read(text: str) -> None:
    before = read_fields("A: 1\r\nB: 2\r\n\r\n", 0, 10)[0]
    assert read_fields(text, 0, 10, before)[0] == read(text)
    assert read_fields(text, 0, 10, before)[0] is not before


def test_a_fault_behind_fields_that_are_known_is_found() -> None:
    before = read_fields("A: 1\r\n\r\n", 0, 10)[0]
    with pytest.raises(WireError):
        read_fields("A: 1\r\nA : 1\r\n\r\n", 0, 10, before)


def test_what_is_remembered_of_fields_begins_empty() -> None:
    headers, _ = read_fields("A: 1\r\n\r\n", 0, 10)
    assert (headers.kept, headers.lines, headers.text) == ({}, "", "A: 1\r\n\r\n")


def test_long_fields_are_not_kept() -> None:
    """An idle connection would keep them twice."""
    longest = f"A: {'x' * (MAX_KEPT_CHARS - 7)}\r\n\r\n"
    assert read_fields(longest, 0, 10)[0].text == longest
    text = f"A: {'x' * MAX_KEPT_CHARS}\r\n\r\n"
    before = read_fields(text, 0, 10)[0]
    assert before.text == ""
    assert read_fields(text, 0, 10, before)[0] is not before
