"""Histograms: exact enough, small, and additive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from egress.review.histogram import add, class_of, merged, middle_of, negated, packed, percentile

VALUES = st.lists(st.integers(0, 2**50), max_size=50)


def counted(values: list[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for value in values:
        counts[class_of(value)] = counts.get(class_of(value), 0) + 1
    return counts


@given(st.integers(0, 2**60))
def test_a_class_stands_for_its_numbers_within_six_percent(value: int) -> None:
    assert abs(middle_of(class_of(value)) - value) <= value * 0.0625


@given(VALUES, VALUES)
def test_what_is_packed_adds_up_as_it_was(one: list[int], other: list[int]) -> None:
    assert merged([packed(counted(one)), packed(counted(other))]) == counted(one + other)


@given(VALUES, VALUES)
def test_what_was_added_can_be_taken_away(one: list[int], other: list[int]) -> None:
    counts = counted(one + other)
    for number, count in negated(packed(counted(other))).items():
        counts[number] += count
    assert merged([packed(counts)]) == counted(one)


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=99))
def test_a_percentile_is_that_of_the_sorted_numbers(values: list[int]) -> None:
    exact = sorted(values)[-(-len(values) * 95 // 100) - 1]
    assert abs(percentile(counted(values), 0.95) - exact) <= exact * 0.0625


def test_nothing_has_no_percentile_and_damage_counts_for_nothing() -> None:
    assert percentile({}, 0.5) == 0
    counts: dict[int, int] = {}
    add(counts, packed({7: 1 << 40})[:7])
    assert counts == {}
    assert merged([packed({7: 1 << 40})]) == {7: 1 << 40}
