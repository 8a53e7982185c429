"""Bytes become lines, wherever they are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from egress.sandbox.lines import LONGEST, lines


@given(some.text(alphabet="aü€\n", max_size=30), some.integers(min_value=1, max_value=5))
def test_the_cut_does_not_matter(text: str, size: int) -> None:
    data = text.encode()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert list(lines(pieces)) == text.split("\n")[: None if text and text[-1] != "\n" else -1]


def test_ends_of_both_kinds_go_and_what_is_no_text_is_shown() -> None:
    assert list(lines([b"a\r\nb\xff\n"])) == ["a", "b\ufffd"]


def test_a_prompt_is_seen_before_its_line_ends() -> None:
    assert list(lines([b"log", b"in: ", b"x\n"], is_whole=False)) == ["log", "login: ", "login: x"]


def test_a_line_without_an_end_is_cut() -> None:
    letters = [b"x" * LONGEST, b"y", b"z\n", b"next\n"]
    assert list(lines(letters)) == ["x" * LONGEST + "y", "z", "next"]
    assert max(len(line) for line in lines(iter([b"x" * 65536] * 100))) <= LONGEST + 65536
