"""Filters: what they refuse to ask, and what stars and marks mean."""

from __future__ import annotations

import pytest

from egress.review.filters import FilterError, Filters, trigrams
from egress.review.line_shape import shape_of


@pytest.mark.parametrize(
    "wrong", [{"verdict": "maybe"}, {"status": "0xx"}, {"status": "2000"}, {"status": "٢٠٠"}]
)
def test_what_no_line_can_have_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(FilterError) as error:
        Filters.of(wrong, None, None)
    assert error.value.hint


def test_a_filter_that_the_schema_does_not_have_is_refused() -> None:
    with pytest.raises(FilterError, match="no such filter"):
        Filters(path="/x")


def test_filters_are_equal_by_what_is_asked() -> None:
    assert Filters(sandbox="", host="a") == Filters(host="a") != Filters(host="a", grep="x")
    assert Filters(host="a", grep="x", since=5).asked() == {"host": "a", "grep": "x", "since": 5}
    assert Filters(host="a", grep="x").but(host="", rule="r") == Filters(rule="r", grep="x")


@pytest.mark.parametrize(
    ("host", "pattern", "fits"),
    [
        ("a.example", "a.example", True),
        ("a.example", "*.example", True),
        ("example", "*.example", False),
        ("abc", "a?c", False),
        ("a?c", "a?c", True),
        ("a[b", "a[*", True),
        ("ab", "a[b]", False),
    ],
)
def test_the_star_alone_is_special(host: str, pattern: str, *, fits: bool) -> None:
    assert Filters(host=pattern).admits_shape(shape_of({"host": host})) is fits


def test_it_knows_what_roll_ups_can_answer() -> None:
    assert Filters(host="a", since=1).is_of_totals
    assert not Filters(method="GET").is_of_totals
    assert not Filters(since=1, grep="x").has_shape
    assert Filters(sandbox="a").has_shape


def test_pieces_of_a_text_are_bounded() -> None:
    assert trigrams("ab") == []
    assert trigrams("abcd") == ["abc", "bcd"]
    assert len(trigrams("".join(map(chr, range(100, 1000))))) <= 24
