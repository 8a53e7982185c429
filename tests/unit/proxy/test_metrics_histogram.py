"""Counting into histograms, and the family of their counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from egress.proxy.metrics import Histogram, histogram
from egress.telemetry.metric_families import HistogramValue


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


@given(st.lists(st.floats(0, 100)))
def test_every_measurement_is_in_one_bucket(measured: list[float]) -> None:
    counted = Histogram((0.5, 10.0))
    for seconds in measured:
        counted.add(seconds)
    assert sum(counted.value().counts) == len(measured)
