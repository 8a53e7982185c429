"""Bytes become lines, wherever they are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from egress.sandbox.process import MAX_LINE_LENGTH, split_lines


@given(some.text(alphabet="aü€\n", max_size=30), some.integers(min_value=1, max_value=5))
def test_the_cut_does_not_matter(text: str, size: int) -> None:
    data = text.encode()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert list(split_lines(pieces)) == text.split("\n")[: None if text and text[-1] != "\n" else -1]


def test_ends_of_both_kinds_go_and_what_is_no_text_is_shown() -> None:
    assert list(split_lines([b"a\r\nb\xff\n"])) == ["a", "b\ufffd"]


def test_a_prompt_is_seen_before_its_line_ends() -> None:
    assert list(split_lines([b"log", b"in: ", b"x\n"], is_whole=False)) == ["log", "login: ", "login: x"]


def test_a_line_without_an_end_is_cut() -> None:
    letters = [b"x" * MAX_LINE_LENGTH, b"y", b"z\n", b"next\n"]
    assert list(split_lines(letters)) == ["x" * MAX_LINE_LENGTH + "y", "z", "next"]
    assert max(len(line) for line in split_lines(iter([b"x" * 65536] * 100))) <= MAX_LINE_LENGTH + 65536
