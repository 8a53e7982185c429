"""Counting into histograms, and families made of counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from egress.telemetry.metric_families import Histogram, HistogramValue, by_label, histogram


def test_a_bucket_holds_its_own_bound() -> None:
    counted = Histogram((1.0, 2.0))
    for seconds in (1.0, 1.5, 2.0, 2.1):
        counted.add(seconds)
    assert counted.value() == HistogramValue((1.0, 2.0), (1, 2, 1), 6.6)


def test_a_value_does_not_change_with_what_is_counted_later() -> None:
    counted = Histogram((1.0,))
    family = histogram("x_seconds", "X.", [((), counted)])
    counted.add(0.5)
    assert family.points == (((), HistogramValue((1.0,), (0, 0), 0.0)),)


def test_points_are_sorted_by_their_label() -> None:
    family = by_label("x_total", "X.", "code", {"b": 2, "a": 1})
    assert family.points == (((("code", "a"),), 1), ((("code", "b"),), 2))


@given(st.lists(st.floats(0, 100)))
def test_every_measurement_is_in_one_bucket(measured: list[float]) -> None:
    counted = Histogram((0.5, 10.0))
    for seconds in measured:
        counted.add(seconds)
    assert sum(counted.value().counts) == len(measured)
