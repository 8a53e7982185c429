"""A diagnosis always says what to do where something is wrong; its words for levels are stable."""

from __future__ import annotations

import pytest

from egress.doctor.diagnosis import Diagnosis, Level, fault, from_error, list_some, note, ok, warning
from egress.errors import ContentError, UnreadableError


def test_the_levels_are_words_that_programs_rely_on() -> None:
    assert [str(level) for level in Level] == ["ok", "note", "warning", "fault"]


def test_each_kind_is_made_with_what_it_needs() -> None:
    assert ok("a", "good") == Diagnosis("a", Level.OK, "good", "")
    assert note("a", "so") == Diagnosis("a", Level.NOTE, "so", "")
    assert warning("a", "hm", "do") == Diagnosis("a", Level.WARNING, "hm", "do")
    assert fault("a", "bad", "do") == Diagnosis("a", Level.FAULT, "bad", "do")


@pytest.mark.parametrize(
    ("error", "fix", "expected"),
    [
        (ContentError("wrong", "its operator has to fix it"), "", "its operator has to fix it"),
        (ContentError("wrong", "its operator has to fix it"), "another", "its operator has to fix it"),
        (UnreadableError("gone"), "bring it", "bring it"),
    ],
)
def test_an_error_brings_its_own_fix(error: ContentError, fix: str, expected: str) -> None:
    assert from_error("x", error, fix=fix) == Diagnosis("x", Level.FAULT, error.message, expected)


def test_an_error_without_a_hint_has_a_fix_all_the_same() -> None:
    assert from_error("x", ContentError("wrong")).fix
    assert from_error("x", ContentError("wrong"), level=Level.WARNING).level is Level.WARNING


def test_a_long_list_says_how_much_it_leaves_out() -> None:
    assert list_some([]) == ""
    assert list_some(["a", "b"], 2) == "a, b"
    assert list_some(["a", "b", "c", "d"], 2) == "a, b and 2 more"
