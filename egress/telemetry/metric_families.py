"""Metrics as values: families of points, before any format. Pure.

`prometheus_text` writes them for Prometheus, `otlp_metrics` for a collector: both say the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

METRIC_PREFIX: Final = "egress_"

type Labels = tuple[tuple[str, str], ...]
"""Name and value of each label, in the order in which they are written."""
MetricKind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """How often something took how long, at one moment."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    """How many fell up to each bound and above the one before; the last above all bounds."""
    total: float
    """Seconds of all of them."""


type MetricValue = float | HistogramValue


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """Points of one name."""

    name: str
    """Without the prefix."""
    kind: MetricKind
    help: str
    points: tuple[tuple[Labels, MetricValue], ...]


class Histogram:
    """Counts how often something took how long, in seconds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def value(self) -> HistogramValue:
        """Return what was counted so far."""
        return HistogramValue(self.bounds, tuple(self.counts), self.total)


def gauge(name: str, text: str, value: float) -> MetricFamily:
    """Return a family of one value that goes up and down."""
    return MetricFamily(name, "gauge", text, (((), value),))


def counter(name: str, text: str, value: float) -> MetricFamily:
    """Return a family of one value that only grows."""
    return MetricFamily(name, "counter", text, (((), value),))


def info(name: str, text: str, **labels: str) -> MetricFamily:
    """Return a family that is always 1: its labels are what it says."""
    return MetricFamily(name, "gauge", text, ((tuple(labels.items()), 1),))


def by_label(
    name: str, text: str, label: str, counts: Mapping[str, float], kind: MetricKind = "counter"
) -> MetricFamily:
    """Return a family with a point for each value of one label, sorted by it."""
    return MetricFamily(name, kind, text, tuple((((label, key),), counts[key]) for key in sorted(counts)))


def histogram(name: str, text: str, points: Iterable[tuple[Labels, Histogram]]) -> MetricFamily:
    """Return a family of histograms."""
    return MetricFamily(
        name, "histogram", text, tuple((labels, counted.value()) for labels, counted in points)
    )
