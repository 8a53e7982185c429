"""Patterns for values: what they mean, what is no pattern, and that no value makes them slow."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.rules.language.report import MeaningError
from egress.rules.language.value_pattern import (
    MAX_PATTERN_CHARS,
    MAX_STATES,
    MAX_VALUE_CHARS,
    parse_value_pattern,
    value_fault,
)


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        (
            "acme/[a-z0-9-]+",
            ["acme/a", "acme/site-2"],
            ["acme/", "acme", "acme/a/b", "xacme/a", "acme/A"],
        ),
        ("(one|two|thr)ee?", ["onee", "twoe", "three"], ["one|two", "onee|", "ee"]),
        ("[0-9]{3,5}", ["123", "12345"], ["12", "123456", "12a"]),
        ("a{2}b{0,1}c{1,}", ["aac", "aabc", "aabccc"], ["ac", "aa", "aabbc"]),
        (r"v1\.2", ["v1.2"], ["v1x2"]),
        ("[a-c_.-]*", ["", "a.b-_"], ["d"]),
        ("(ab?)*c", ["c", "aabc"], ["bc"]),
        ("refs/(heads|tags)/[A-Za-z0-9._/-]+", ["refs/heads/a/b"], ["refs/heads/", "refs/x/a"]),
    ],
)
def test_a_pattern_fits_whole_values(pattern: str, fits: list[str], fails: list[str]) -> None:
    found = parse_value_pattern(pattern)
    assert [value for value in fits if not found.matches(value)] == []
    assert [value for value in fails if found.matches(value)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a" * (MAX_PATTERN_CHARS + 1),
        ".",
        ".*",
        "^a",
        "a$",
        "(a",
        "a)",
        "a|",
        "|a",
        "()",
        "(|a)",
        "[a",
        "[]",
        "[^a]",
        "[z-a]",
        "[a-Z]",
        "[A-z]",
        "[0-a]",
        "[!-~]",
        "[a b]",
        "[%]",
        "*a",
        "+",
        "?",
        "a{",
        "a{}",
        "a{,3}",
        "a{3,1}",
        "a{0}",
        "a{1000}",
        "a{-1}",
        "a{x}",
        "a**{2",
        r"\d",
        r"\w",
        r"\\",
        "\\",
        r"\*",
        r"\%",
        "a b",
        "%41",
        "a;b",
        "a&b",
        "é",
        "(?i)a",
        "(?=a)",
        "a\n",
        "(((((((((a)))))))))",
        "((a{99}){99}){99}",
        "a{700}",
    ],
)
def test_anything_else_is_no_pattern(pattern: str) -> None:
    with pytest.raises(MeaningError) as error:
        parse_value_pattern(pattern)
    assert len(pattern) < 4 or pattern not in f"{error.value} {error.value.hint}"


_ATOMS = st.recursive(
    st.sampled_from(["a", "b", "/", r"\.", "[ab]", "[a-c.-]"]),
    lambda part: st.one_of(
        st.tuples(part, part).map("".join),
        st.tuples(part, part).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(part, st.sampled_from(["?", "*", "+", "{2}", "{0,2}", "{1,}", "{0,}", "{2,3}"])).map(
            lambda two: f"({two[0]}){two[1]}"
        ),
    ),
    max_leaves=6,
)


@given(_ATOMS, st.text("abc/.-", max_size=8))
def test_a_pattern_means_what_it_means_as_a_regular_expression(pattern: str, value: str) -> None:
    found = parse_value_pattern(pattern)
    assert found.matches(value) == bool(re.fullmatch(pattern, value))


def test_no_value_makes_a_pattern_slow() -> None:
    found = parse_value_pattern("((a?){3}){5}(a*)*((a|a)*)*[a-z]{1,90}")
    assert len(found._states) <= MAX_STATES
    begun = time.process_time()
    assert not found.matches("a" * (MAX_VALUE_CHARS - 1) + "/")
    # A backtracking reader would need longer than the test has.
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "value",
    [
        "",
        "a" * (MAX_VALUE_CHARS + 1),
        "a b",
        "a%2fb",
        "a?b",
        "a#b",
        "a;b",
        "a&b",
        "a\\b",
        "a*",
        "{param.a}",
        "é",
        "a\n",
        "\x00",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/..",
        "../a",
        "a/./b",
        "a\u2028",
        "\u202ea",
        "a|b",
        '"a"',
    ],
)
def test_some_texts_are_the_value_of_no_parameter(value: str) -> None:
    assert value_fault(value)
    assert len(value) < 4 or value not in value_fault(value)


@pytest.mark.parametrize("value", ["a", "acme/site", "...", "a..b", ".a/b.", "~a@b:1+2=3,4", "a" * 256])
def test_other_texts_may_be(value: str) -> None:
    assert value_fault(value) == ""
