"""The text for Prometheus, read back by an independent parser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from egress.proxy.metrics import Histogram, histogram
from egress.telemetry.metric_families import (
    HistogramValue,
    MetricFamily,
    by_label,
    gauge,
)
from egress.telemetry.prometheus_text import prometheus_text


def read(*families: MetricFamily) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(prometheus_text(families)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_family_has_its_help_its_type_and_its_points() -> None:
    assert prometheus_text([gauge("ready", "Whether it can serve.", value=True)]) == (
        "# HELP egress_ready Whether it can serve.\n# TYPE egress_ready gauge\negress_ready 1\n"
    )


def test_a_family_without_a_point_is_left_out() -> None:
    assert prometheus_text([by_label("reloads_total", "Reloads.", "result", {})]) == ""


def test_each_bucket_holds_what_is_below_it() -> None:
    counted = Histogram((1.0, 2.0))
    for seconds in (1.0, 1.5, 2.0, 2.1):
        counted.add(seconds)
    found = read(histogram("x_seconds", "X.", [((("entry", "a"),), counted)]))
    assert found["egress_x_seconds_bucket"] == [
        ({"entry": "a", "le": "1"}, 1),
        ({"entry": "a", "le": "2"}, 3),
        ({"entry": "a", "le": "+Inf"}, 4),
    ]
    assert found["egress_x_seconds_count"] == [({"entry": "a"}, 4)]
    assert found["egress_x_seconds_sum"] == [({"entry": "a"}, 6.6)]


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\n"\\'), max_size=20))
def test_a_label_cannot_end_itself(nasty: str) -> None:
    family = by_label("reloads_total", "Reloads.", "result", {nasty: 1})
    assert read(family)["egress_reloads_total"] == [({"result": nasty}, 1)]


@given(st.floats(0, 1e12) | st.integers(0, 2**53))
def test_a_number_is_read_back_as_it_was(number: float) -> None:
    assert read(gauge("x", "X.", number))["egress_x"] == [({}, number)]


def test_a_histogram_without_labels_has_only_the_bound() -> None:
    family = MetricFamily("x_seconds", "histogram", "X.", (((), HistogramValue((0.5,), (1, 0), 0.25)),))
    assert read(family)["egress_x_seconds_bucket"] == [({"le": "0.5"}, 1), ({"le": "+Inf"}, 1)]
